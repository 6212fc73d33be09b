// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/status.hpp"
#include "rueda/rueda.hpp"

namespace rueda::training {
namespace {

/// How a body ended, in the form in which it travels: the same size whatever it says, so that its metadata never
/// change.
struct Outcome {
    std::int32_t code = 0;
    std::int32_t length = 0;
    std::array<char, 4000> text{};
};
static_assert(sizeof(Outcome) == 4008);

using OutcomeBytes = std::array<std::uint8_t, sizeof(Outcome)>;

/// Cuts at the start of a UTF-8 character.
std::size_t cut_length(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) {
        return text.size();
    }
    std::size_t length = limit;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) {
        --length;
    }
    return length;
}

OutcomeBytes encode(const Status& status) {
    Outcome outcome;
    const std::string& text = status.message();
    const std::size_t length = cut_length(text, outcome.text.size());
    outcome.code = static_cast<std::int32_t>(status.code());
    outcome.length = static_cast<std::int32_t>(length);
    std::copy_n(text.begin(), length, outcome.text.begin());
    OutcomeBytes bytes{};
    std::memcpy(bytes.data(), &outcome, sizeof outcome);
    return bytes;
}

/// From another process: checked before use.
Status decode(std::span<const std::uint8_t> bytes, int rank) {
    Outcome outcome;
    if (bytes.size() != sizeof outcome) {
        return failure(ErrorCode::internal, "rank {} sent {} bytes about how it ended; {} were expected", rank,
                       bytes.size(), sizeof outcome);
    }
    std::memcpy(&outcome, bytes.data(), sizeof outcome);
    const auto code = outcome.code;
    const auto length = outcome.length;
    if (code < 0 || code > static_cast<std::int32_t>(ErrorCode::internal) || length < 0 ||
        static_cast<std::size_t>(length) > outcome.text.size()) {
        return failure(ErrorCode::internal, "rank {} sent error code {} with {} bytes of text; the codes are 0 to {}",
                       rank, code, length, static_cast<std::int32_t>(ErrorCode::internal));
    }
    return {static_cast<ErrorCode>(code), std::string(outcome.text.data(), static_cast<std::size_t>(length))};
}

Status run(const std::function<void()>& body) {
    try {
        body();
        return {};
    } catch (const Error& error) {
        return {error.code(), error.what()};
    } catch (const std::exception& error) {
        return {ErrorCode::internal, error.what()};
    }
}

}  // namespace

void run_on_root(const std::function<void()>& body, int root) {
    OutcomeBytes bytes = encode(rank() == root ? run(body) : Status());
    broadcast("rueda.training.agreement.root", TensorView(bytes), root);
    decode(bytes, root).throw_if_failed();
}

void run_on_every_rank(const std::function<void()>& body) {
    OutcomeBytes mine = encode(run(body));
    const Handle gathered =
        allgather("rueda.training.agreement.all",
                  TensorView(mine.data(), DType::uint8, Shape{1, static_cast<std::int64_t>(mine.size())}));
    const TensorView output = gathered.output();
    const std::size_t ranks = static_cast<std::size_t>(size());
    if (static_cast<std::size_t>(output.shape().elements()) != ranks * mine.size()) {
        throw Internal(fmt::format("{} bytes were gathered from {} ranks; {} were expected", output.shape().elements(),
                                   ranks, ranks * mine.size()));
    }
    const std::span all(static_cast<const std::uint8_t*>(output.data()), ranks * mine.size());
    Status first;
    std::size_t first_rank = 0;
    std::size_t failed = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
        Status status = decode(all.subspan(i * mine.size(), mine.size()), static_cast<int>(i));
        if (!status.is_ok()) {
            if (failed == 0) {
                first = status;
                first_rank = i;
            }
            ++failed;
        }
    }
    if (failed == ranks || failed == 0) {
        first.throw_if_failed();
        return;
    }
    throw_error(first.code(), fmt::format("rank {}: {}", first_rank, first.message()));
}

}  // namespace rueda::training
