// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/set_up_plane.hpp"

#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/text.hpp"

namespace rueda::core {

using collectives::Bytes;

namespace {

/// The first byte that a member sends in a step. It says what the member does. Ranks that are not members send nothing.
enum class Word : std::uint8_t {
    step = 1,     ///< the member takes part in a step: its bytes for the other members follow
    finish = 2,   ///< the member has finished the setup: nothing follows
    give_up = 3,  ///< the member gives up the setup: an error code and a text follow
};

constexpr std::size_t kMostReasonBytes = 4096;

Bytes said(Word word, std::span<const std::byte> bytes) {
    Bytes all{static_cast<std::byte>(word)};
    all.insert(all.end(), bytes.begin(), bytes.end());
    return all;
}

Status reason_of(int rank, std::span<const std::byte> bytes) {
    const auto code = bytes.empty() ? 0 : static_cast<std::int32_t>(bytes[0]);
    const bool known =
        code > static_cast<std::int32_t>(ErrorCode::ok) && code <= static_cast<std::int32_t>(ErrorCode::internal);
    if (!known) {
        return failure(ErrorCode::internal, "rank {} gave up with the unknown error {}", rank, code);
    }
    const auto text = bytes.subspan(1);
    const std::string words =
        base::printable({reinterpret_cast<const char*>(text.data()), text.size()}, kMostReasonBytes);
    // If the members agreed on a failure in an earlier step, the text already names the rank that failed.
    return words.starts_with("rank ") ? Status(static_cast<ErrorCode>(code), words)
                                      : failure(static_cast<ErrorCode>(code), "rank {}: {}", rank, words);
}

struct Step {
    bool finished = false;     ///< all members have finished
    std::vector<Bytes> bytes;  ///< what each member sent in this step; empty if all members have finished
};

/// Reads the result of one step. `all` holds what each rank of the job sent.
Result<Step> read_step(const std::vector<Bytes>& all, const SetIdentity& identity) {
    Step step;
    std::size_t finished = 0;
    std::optional<Status> gave_up;
    for (const int rank : identity.ranks) {
        const Bytes& bytes = all[static_cast<std::size_t>(rank)];
        const auto word = bytes.empty() ? Word() : static_cast<Word>(bytes[0]);
        const std::span<const std::byte> rest = std::span(bytes).subspan(bytes.empty() ? 0 : 1);
        if (word == Word::give_up && !gave_up) {
            gave_up = reason_of(rank, rest);
        } else if (word == Word::finish) {
            ++finished;
        } else if (word != Word::step && word != Word::give_up) {
            return failure(ErrorCode::internal, "setting up {}: rank {} sent something that no working rank sends",
                           identity.describe(), rank);
        }
        step.bytes.emplace_back(rest.begin(), rest.end());
    }
    if (gave_up) {
        return *gave_up;
    }
    if (finished != 0 && finished != identity.ranks.size()) {
        return failure(ErrorCode::internal, "setting up {}: some ranks have finished and others have not",
                       identity.describe());
    }
    step.finished = finished != 0;
    return step;
}

}  // namespace

Result<std::vector<Bytes>> SetUpPlane::allgather(std::span<const std::byte> mine) {
    RUEDA_ASSERT(!ended_);
    const Result<std::vector<Bytes>> all = exchange_(said(Word::step, mine));
    ended_ = true;  // stays true if anything fails
    RUEDA_RETURN_IF_FAILED(all.status());
    Result<Step> step = read_step(all.value(), identity_);
    RUEDA_RETURN_IF_FAILED(step.status());
    ended_ = false;
    return std::move(step.value().bytes);
}

Result<Bytes> SetUpPlane::broadcast(std::span<const std::byte> mine, int root) {
    Result<std::vector<Bytes>> all = allgather(rank_ == root ? mine : std::span<const std::byte>());
    RUEDA_RETURN_IF_FAILED(all.status());
    return std::move(all.value()[static_cast<std::size_t>(root)]);
}

Status SetUpPlane::barrier() { return allgather({}).status(); }

void SetUpPlane::close(bool /*after_failure*/) {}

Status SetUpPlane::finish() {
    RUEDA_ASSERT(!ended_);
    ended_ = true;
    const Result<std::vector<Bytes>> all = exchange_(said(Word::finish, {}));
    RUEDA_RETURN_IF_FAILED(all.status());
    return read_step(all.value(), identity_).status();
}

void SetUpPlane::give_up(const Status& reason) {
    if (ended_) {
        return;  // the other ranks know the reason already, or the job has ended
    }
    ended_ = true;
    Bytes words{static_cast<std::byte>(reason.code())};
    const auto text = std::as_bytes(std::span(reason.message()));
    words.insert(words.end(), text.begin(), text.end());
    static_cast<void>(exchange_(said(Word::give_up, words)));
}

Status SetUpPlane::follow(const JobExchange& exchange, const SetIdentity& identity) {
    for (;;) {
        const Result<std::vector<Bytes>> all = exchange({});
        RUEDA_RETURN_IF_FAILED(all.status());
        const Result<Step> step = read_step(all.value(), identity);
        RUEDA_RETURN_IF_FAILED(step.status());
        if (step.value().finished) {
            return {};
        }
    }
}

}  // namespace rueda::core
