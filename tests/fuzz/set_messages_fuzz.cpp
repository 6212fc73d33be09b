// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes messages between ranks about process sets. Each allgather of the job returns the next piece of the input.
// Every exchange must end, on members of the set and on the other ranks. Messages of a correct rank must arrive
// unchanged.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/process_sets/set_changes.hpp"
#include "core/setup/set_up_plane.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;
using collectives::Bytes;

constexpr int kRanks = 4;
const SetIdentity kSet{3, {0, 2, 3}};

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

Bytes joined(const std::vector<Bytes>& all) {
    Bytes bytes;
    for (const Bytes& one : all) {
        const auto length = static_cast<std::uint32_t>(one.size());
        const auto raw = std::as_bytes(std::span(&length, 1));
        bytes.insert(bytes.end(), raw.begin(), raw.end());
        bytes.insert(bytes.end(), one.begin(), one.end());
    }
    return bytes;
}

/// The job as one rank sees it: each exchange returns the next bytes of the input, or fails if they are invalid.
class Job {
public:
    explicit Job(std::span<const std::byte> input) : rest_(input) {}

    Result<std::vector<Bytes>> exchange() {
        if (rest_.empty()) {
            return failure(ErrorCode::aborted, "the input is used up");
        }
        const std::size_t length = std::min<std::size_t>(static_cast<std::size_t>(rest_[0]), rest_.size() - 1);
        const auto bytes = rest_.subspan(1, length);
        rest_ = rest_.subspan(1 + length);
        Result<std::vector<Bytes>> all = split_by_rank(bytes, kRanks);
        if (all.is_ok()) {
            expect(all.value().size() == kRanks && joined(all.value()) == Bytes(bytes.begin(), bytes.end()));
        }
        return all;
    }

private:
    std::span<const std::byte> rest_;
};

void be_a_member(std::span<const std::byte> input) {
    Job job(input);
    const JobExchange exchange = [&](std::span<const std::byte> /*mine*/) { return job.exchange(); };
    SetUpPlane plane(exchange, kSet, 2);
    const Result<std::vector<Bytes>> all = plane.allgather({});
    if (!all.is_ok()) {
        // the failed allgather() has already given up the setup, so this second give_up() must have no effect
        return plane.give_up(all.status());
    }
    expect(all.value().size() == kSet.ranks.size());
    if (const Result<Bytes> one = plane.broadcast({}, 1); one.is_ok()) {
        static_cast<void>(plane.finish());
    }
}

void follow(std::span<const std::byte> input) {
    Job job(input);
    const JobExchange exchange = [&](std::span<const std::byte> mine) {
        expect(mine.empty());
        return job.exchange();
    };
    static_cast<void>(SetUpPlane::follow(exchange, kSet));
}

/// Splits the data that the members gathered into one part for each rank. If each rank occurs exactly once, the joined
/// parts must equal the input.
void read_members(std::span<const std::byte> input) {
    const Result<std::vector<Bytes>> all = split_by_named_rank(input, kRanks);
    expect(all.is_ok() ? all.value().size() == kRanks : !all.status().message().empty());
    Bytes again;
    for (std::uint32_t rank = 0; all.is_ok() && rank < kRanks; ++rank) {
        const std::array<std::uint32_t, 2> header = {rank, static_cast<std::uint32_t>(all.value()[rank].size())};
        const auto raw = std::as_bytes(std::span(header));
        again.insert(again.end(), raw.begin(), raw.end());
        again.insert(again.end(), all.value()[rank].begin(), all.value()[rank].end());
    }
    expect(!all.is_ok() || split_by_named_rank(again, kRanks).value() == all.value());
}

void read_changes(std::span<const std::byte> input) {
    expect(!describe_set_change(input).empty());
    std::vector<int> numbers(input.size() / sizeof(int));
    if (!numbers.empty()) {
        std::memcpy(numbers.data(), input.data(), numbers.size() * sizeof(int));
    }
    for (const SetChange change : {SetChange::add, SetChange::remove}) {
        const std::string text = describe_set_change(encode(change, numbers));
        expect(text.starts_with(change == SetChange::add ? "add_process_set([" : "remove_process_set("));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = std::as_bytes(std::span(data, size));
    be_a_member(input);
    follow(input);
    read_members(input);
    if (size > 0) {
        read_changes(input);
    }
    return 0;
}
