// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/scatter_task.hpp"

#include <algorithm>

#include "collectives/host/tasks/cell_pieces.hpp"
#include "collectives/host/tasks/copying.hpp"
#include "collectives/rows.hpp"

namespace rueda::collectives {

void ScatterTask::begin(const Batch& batch) {
    batch_ = batch;
    const std::uint64_t longest = plan();
    const ArenaPlan& arena = set_.arena->plan();
    piece_bytes_ = chunk_bytes_of(longest, smallest_chunk_of(arena.cell_bytes), largest_piece_bytes(), arena.parts);
    chunk_count_ = (longest + piece_bytes_ - 1) / piece_bytes_;
    std::uint64_t output_bytes = from_[set_.rank].bytes();
    if (!is_reduction(batch.operation)) {
        output_bytes = 0;
        for (std::uint32_t member = 0; member < set_.members; ++member) {
            output_bytes += from_[member].bytes();
        }
    }
    store_ = store_of_output(output_bytes, set_.arena->plan().stream_from);
    somebody_stages_ = false;
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        somebody_stages_ = somebody_stages_ || is_staged(member);
    }
    const Location& mine = batch.locations[set_.rank];
    others_read_my_input_ = set_.members > 1 && mine.payload == nullptr && mine.input != nullptr;
    // If all inputs are in the announcements, this rank takes its parts at once, without waiting.
    if (all_travelled(batch.locations_of(0, set_.members))) {
        for (std::uint64_t index = 0; index < chunk_count_; ++index) {
            take(index);
        }
        chunk_count_ = 0;
    }
    staged_chunks_ = is_staged(set_.rank) ? 0 : chunk_count_;
    taken_chunks_ = 0;
    const bool copies_own =
        somebody_stages_ && chunk_count_ > 0 && !is_reduction(batch.operation) && batch.segments[0].output != nullptr;
    own_ = copies_own ? from_[set_.rank] : Range{};
}

std::uint64_t ScatterTask::plan() {
    switch (batch_.operation) {
        case Operation::reduce:
            return plan_reduce();
        case Operation::reducescatter:
            return plan_reducescatter();
        default:
            return plan_alltoall();
    }
}

/// A cell (a buffer in shared memory) holds a piece for every member except its owner. In a gather or reduce,
/// everything is for the root, so a cell holds one piece.
std::uint32_t ScatterTask::pieces_in_cell() const { return all_is_for_root() ? 1 : std::max(set_.members - 1, 1U); }

std::uint64_t ScatterTask::largest_piece_bytes() const {
    return bytes_of_cell_piece(set_.arena->plan().cell_bytes, pieces_in_cell());
}

/// Plans a reduce. Returns the size in bytes of the longest part of any member, which is the same on every rank. The
/// plan functions for reducescatter and alltoall return such a size, too.
std::uint64_t ScatterTask::plan_reduce() {
    const Segment& segment = batch_.segments[0];
    std::fill_n(to_.begin(), set_.members, Range{});
    to_[segment.root] = {0, segment.bytes()};
    std::fill_n(from_.begin(), set_.members, to_[set_.rank]);
    return segment.bytes();
}

std::uint64_t ScatterTask::plan_reducescatter() {
    const std::uint64_t row_bytes = batch_.segments[0].bytes();
    const std::int64_t rows = batch_.locations[set_.rank].first_dimension;
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        const Rows part = rows_of_member(rows, member, set_.members);
        const std::uint64_t begin = static_cast<std::uint64_t>(part.begin) * row_bytes;
        to_[member] = {begin, begin + static_cast<std::uint64_t>(part.count) * row_bytes};
    }
    std::fill_n(from_.begin(), set_.members, to_[set_.rank]);
    return to_[0].bytes();  // the first member has the most rows, so its part is the longest
}

std::uint64_t ScatterTask::plan_alltoall() {
    const std::uint64_t row_bytes = batch_.segments[0].bytes();
    std::uint64_t longest = 0;
    for (std::uint32_t from = 0; from < set_.members; ++from) {
        std::uint64_t begin = 0;
        for (std::uint32_t to = 0; to < set_.members; ++to) {
            const auto rows = static_cast<std::uint64_t>(batch_.splits[std::size_t{from} * set_.members + to]);
            const Range part{begin, begin + rows * row_bytes};
            if (from == set_.rank) {
                to_[to] = part;
            }
            if (to == set_.rank) {
                from_[from] = part;
            }
            longest = std::max(longest, part.bytes());
            begin = part.end;
        }
    }
    return longest;
}

Range ScatterTask::piece(Range part, std::uint64_t index) const {
    return {std::min(part.begin + index * piece_bytes_, part.end),
            std::min(part.begin + (index + 1) * piece_bytes_, part.end)};
}

bool ScatterTask::is_staged(std::uint32_t member) const {
    const Location& location = batch_.locations[member];
    return set_.members > 1 && location.payload == nullptr && location.input == nullptr;
}

std::byte* ScatterTask::in_cell(std::uint32_t from, std::uint32_t to, std::uint64_t index) const {
    const std::uint32_t place = (to + set_.members - from - 1) % set_.members % pieces_in_cell();
    return set_.exchanged_cell(from, set_.chunks + index) + place * piece_bytes_;
}

StepResult ScatterTask::step() {
    last_work_ = StepWork::none;
    if (may_stage()) {
        last_work_ = StepWork::copy_in;
        stage(staged_chunks_++);
        set_.publish(set_.mine().staged, set_.chunks + staged_chunks_);
        return StepResult::advanced;
    }
    if (own_.bytes() > 0 && !may_take()) {
        last_work_ = StepWork::copy_out;
        copy_own();
        return StepResult::advanced;
    }
    if (may_take()) {
        last_work_ = is_reduction(batch_.operation) ? StepWork::reduce : StepWork::copy_out;
        take(taken_chunks_++);
        publish_taken();
        return StepResult::advanced;
    }
    if (staged_chunks_ < chunk_count_ || taken_chunks_ < chunk_count_ ||
        (others_read_my_input_ && !set_.all_reached(&Progress::fetched, set_.chunks + chunk_count_))) {
        return StepResult::waiting;
    }
    if (chunk_count_ > 0) {
        set_.chunks += chunk_count_;
        // This rank stages nothing, and no rank waits for its counter `staged`.
        set_.mine().staged.store(set_.chunks, std::memory_order_release);
    }
    return StepResult::done;
}

/// Staging goes at most one chunk ahead. With more staged chunks, the caches would lose data that other ranks still
/// have to read.
bool ScatterTask::may_stage() const {
    return staged_chunks_ < chunk_count_ && staged_chunks_ < taken_chunks_ + 2 &&
           set_.exchanged_cell_is_free(set_.chunks + staged_chunks_);
}

void ScatterTask::stage(std::uint64_t index) {
    for (std::uint32_t step = 1; step < set_.members; ++step) {
        const std::uint32_t member = (set_.rank + step) % set_.members;
        if (const Range part = piece(to_[member], index); part.bytes() > 0) {
            ops::copy(in_cell(set_.rank, member, index), batch_.segments[0].input + part.begin, part.bytes());
        }
    }
}

bool ScatterTask::may_take() const {
    if (taken_chunks_ == chunk_count_) {
        return false;
    }
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        if (member != set_.rank && is_staged(member) && piece(from_[member], taken_chunks_).bytes() > 0 &&
            !set_.reached(member, &Progress::staged, set_.chunks + taken_chunks_ + 1)) {
            return false;
        }
    }
    return true;
}

void ScatterTask::take(std::uint64_t index) {
    if (is_reduction(batch_.operation)) {
        reduce(index);
    } else {
        copy(index);
    }
}

const std::byte* ScatterTask::source(std::uint32_t member, std::uint64_t index) const {
    const std::uint64_t begin = piece(from_[member], index).begin;
    if (member == set_.rank) {
        return batch_.segments[0].input + begin;
    }
    const Location& location = batch_.locations[member];
    if (location.payload != nullptr) {
        return location.payload + begin;
    }
    return location.input != nullptr ? location.input + begin : in_cell(member, set_.rank, index);
}

void ScatterTask::reduce(std::uint64_t index) {
    const Segment& segment = batch_.segments[0];
    const Range part = piece(from_[set_.rank], index);
    if (part.bytes() == 0) {
        return;
    }
    std::array<const std::byte*, base::kMaxLocalRanks> sources{};
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        sources[member] = source(member, index);
    }
    std::byte* const destination = segment.output + (part.begin - from_[set_.rank].begin);
    ops::reduce(segment.reduction(set_.members), {sources.data(), set_.members}, {&destination, 1},
                part.bytes() / size_of(segment.dtype), store_);
}

/// Copies a part of what this rank keeps of its own input. Ends when a piece of another rank has arrived, because that
/// rank waits until this rank has taken the piece.
void ScatterTask::copy_own() {
    std::byte* output = batch_.segments[0].output;
    for (std::uint32_t member = 0; member < set_.rank; ++member) {
        output += from_[member].bytes();
    }
    output -= from_[set_.rank].begin;
    const std::uint64_t end = std::min(own_.end, own_.begin + kLargestChunk);
    const std::uint64_t at_once = taken_chunks_ < chunk_count_ ? own_bytes_at_once(store_) : kLargestChunk;
    do {
        const std::uint64_t bytes = std::min(at_once, end - own_.begin);
        ops::copy(output + own_.begin, batch_.segments[0].input + own_.begin, bytes, store_);
        own_.begin += bytes;
    } while (own_.begin < end && !may_take());
}

void ScatterTask::copy(std::uint64_t index) {
    if (batch_.segments[0].output == nullptr) {
        return;
    }
    std::array<std::byte*, base::kMaxLocalRanks> destinations{};
    std::byte* next = batch_.segments[0].output;
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        destinations[member] = next;
        next += from_[member].bytes();
    }
    const std::uint32_t first = somebody_stages_ ? 1 : 0;  // copy_own() copies this rank's own part
    for (std::uint32_t step = first; step < set_.members; ++step) {
        // Each rank begins with a different neighbour, so that not all ranks read the memory of one rank at the same
        // time.
        const std::uint32_t member = (set_.rank + step) % set_.members;
        if (const Range part = piece(from_[member], index); part.bytes() > 0) {
            ops::copy(destinations[member] + (part.begin - from_[member].begin), source(member, index), part.bytes(),
                      store_);
        }
    }
}

/// Publishes how many chunks this rank has taken. For these chunks, this rank no longer needs the other ranks' memory.
/// If no rank stages, the ranks wait only for the last chunk, so earlier counts are not published.
void ScatterTask::publish_taken() {
    const std::uint64_t value = set_.chunks + taken_chunks_;
    set_.mine().reduced.store(value, std::memory_order_release);  // No rank waits for `reduced` in this task.
    if (somebody_stages_ || taken_chunks_ == chunk_count_) {
        set_.publish(set_.mine().fetched, value);
    }
}

}  // namespace rueda::collectives
