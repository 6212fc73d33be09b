// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/local_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "collectives/host/tasks/cell_pieces.hpp"

namespace rueda::collectives {

LocalExchange::LocalExchange(HierarchicalSet& set) : set_(set) {
    piece_bytes_ = bytes_of_cell_piece(set.arena->plan().cell_bytes, std::max(set.members - 1, 1U));
}

void LocalExchange::begin(const PairParts& parts) {
    parts_ = &parts;
    phase_ = set_.members > 1 ? Phase::tell : Phase::exchange;
    rounds_ = staged_ = taken_ = 0;
}

bool LocalExchange::is_done() const { return phase_ == Phase::exchange && staged_ == rounds_ && taken_ == rounds_; }

bool LocalExchange::act(std::uint64_t& work) {
    if (phase_ == Phase::tell) {
        if (!set_.run_may_begin()) {
            return false;
        }
        tell();
        return true;
    }
    if (phase_ == Phase::learn) {
        if (!set_.all_reached(&Progress::staged, set_.chunks + 1)) {
            return false;
        }
        learn();
        return true;
    }
    if (may_stage()) {
        stage(work);
        return true;
    }
    if (may_take()) {
        take(work);
        return true;
    }
    return false;
}

void LocalExchange::tell() {
    std::byte* cells = set_.cells_of(set_.rank);
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        const std::uint64_t bytes = parts_->to[rank_of(member)].bytes();
        std::memcpy(cells + member * sizeof(bytes), &bytes, sizeof(bytes));
    }
    phase_ = Phase::learn;
    set_.publish(set_.mine().staged, set_.chunks + 1);
}

void LocalExchange::learn() {
    std::uint64_t longest = 0;
    phase_ = Phase::exchange;
    for (std::uint32_t from = 0; from < set_.members; ++from) {
        for (std::uint32_t to = 0; to < set_.members; ++to) {
            std::uint64_t bytes = 0;
            std::memcpy(&bytes, set_.cells_of(from) + to * sizeof(bytes), sizeof(bytes));
            if (from == to) {
                continue;
            }
            if (!can_be(from, to, bytes)) {
                return;
            }
            longest = std::max(longest, bytes);
        }
    }
    rounds_ = (longest + piece_bytes_ - 1) / piece_bytes_;
    set_.publish(set_.mine().fetched, set_.chunks + 1);
}

/// Checks the length of a part that rank `from` wrote to shared memory. Another process wrote the length, so it can be
/// any number. If the part is for this rank, this rank knows the right length, and the two must be equal. The length of
/// any other part must not exceed a limit.
bool LocalExchange::can_be(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const std::uint64_t expected = parts_->from[rank_of(from)].bytes();
    if (to == set_.rank ? bytes == expected : bytes <= kMost) {
        return true;
    }
    set_.messages.fail(failure(
        ErrorCode::internal, "rank {} of the process set says that it has {} bytes for rank {}; expected {}{}",
        rank_of(from), bytes, rank_of(to), to == set_.rank ? "" : "at most ", to == set_.rank ? expected : kMost));
    return false;
}

std::byte* LocalExchange::place(std::uint32_t from, std::uint32_t to, std::uint64_t round) const {
    const std::uint32_t index = (to + set_.members - from - 1) % set_.members;
    return set_.arena->cell(from, round) + index * piece_bytes_;
}

Range LocalExchange::piece(Range part, std::uint64_t round) const {
    return {std::min(part.begin + round * piece_bytes_, part.end),
            std::min(part.begin + (round + 1) * piece_bytes_, part.end)};
}

/// Whether this rank may write the next pieces to its cell (its buffer in shared memory). All ranks must have taken the
/// data that the cell held before. Before the first rounds, the cells hold the lengths of the parts, and all ranks must
/// have read these.
bool LocalExchange::may_stage() const {
    const std::uint64_t cells = set_.arena->plan().cells_per_rank;
    return staged_ < rounds_ &&
           set_.all_reached(&Progress::fetched, set_.chunks + 1 + (staged_ < cells ? 0 : staged_ + 1 - cells));
}

void LocalExchange::stage(std::uint64_t& work) {
    for (std::uint32_t step = 1; step < set_.members; ++step) {
        const std::uint32_t member = (set_.rank + step) % set_.members;
        const Range part = piece(parts_->to[rank_of(member)], staged_);
        if (part.bytes() > 0) {
            ops::copy(place(set_.rank, member, staged_), parts_->input + part.begin, part.bytes());
            work += part.bytes();
        }
    }
    ++staged_;
    set_.publish(set_.mine().staged, set_.chunks + 1 + staged_);
}

bool LocalExchange::may_take() const {
    return taken_ < rounds_ && set_.all_reached(&Progress::staged, set_.chunks + 1 + taken_ + 1);
}

void LocalExchange::take(std::uint64_t& work) {
    for (std::uint32_t step = 1; step < set_.members; ++step) {
        const std::uint32_t member = (set_.rank + step) % set_.members;
        const Range part = piece(parts_->from[rank_of(member)], taken_);
        if (part.bytes() > 0 && parts_->output != nullptr) {
            ops::copy(parts_->output + part.begin, place(member, set_.rank, taken_), part.bytes());
            work += part.bytes();
        }
    }
    ++taken_;
    set_.publish(set_.mine().fetched, set_.chunks + 1 + taken_);
}

}  // namespace rueda::collectives
