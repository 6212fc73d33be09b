// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/hierarchical_allreduce_task.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "collectives/rows.hpp"
#include "ops/exact_sums.hpp"
#include "ops/neutral.hpp"

namespace rueda::collectives {
namespace {

/// The size in bytes of a piece on a host with one rank. Such a host does not copy through shared memory.
constexpr std::uint64_t kPlaceOfOne = 64 * 1024;

/// The largest number of places for staging. A place is a buffer in shared memory, and staging copies inputs to shared
/// memory. With two places, staging and combining overlap. With four places, a rank that is late for a short time does
/// not delay the others.
constexpr std::uint64_t kMostStagingPlaces = 4;
constexpr std::uint64_t kLeastWorthAPlace = 1024;
/// The size in bytes of the largest staged element: two int64 values of an exact sum. The smallest place (buffer for
/// staging) has four times this size, because a double that will be compressed takes four times as many bytes in shared
/// memory as on the network.
constexpr std::uint64_t kLargestStaged = 16;
constexpr std::uint64_t kLeastPlace = 4 * kLargestStaged;

}  // namespace

HierarchicalAllreduceTask::HierarchicalAllreduceTask(HierarchicalSet& set)
    : set_(set), chunks_(set.hosts.count(), set.hosts.lanes(), set.options), pipeline_(set, chunks_, set.rank) {
    plan_cells();
}

void HierarchicalAllreduceTask::plan_cells() {
    if (set_.members == 1) {
        place_bytes_ = kPlaceOfOne;
        return;
    }
    const std::uint64_t half = set_.bytes_of_cells() / 2;
    const std::uint64_t lanes = set_.hosts.lanes();
    staging_places_ = kMostStagingPlaces;
    while (staging_places_ > 1 && half / staging_places_ / lanes < kLeastWorthAPlace) {
        staging_places_ /= 2;
    }
    const std::uint64_t bytes = half / staging_places_ / lanes;
    // A cell (a rank's buffer in shared memory) has space for one element of every member; see
    // core/setup/arena_setup.cpp.
    RUEDA_ASSERT(bytes >= kLeastPlace);
    place_bytes_ = bytes / base::kCacheLine * base::kCacheLine;
    delivery_places_ = half / place_bytes_;
}

/// Computes `piece_bytes_`: how many bytes one rank sends to other hosts at one time. Data that will be compressed is
/// longer in shared memory than on the network. It must fit into one place (a buffer in shared memory) in its longer
/// form, too.
void HierarchicalAllreduceTask::plan_pieces() {
    staged_ratio_ = 1;
    for (const PartialReduction& reduction : reductions_) {
        staged_ratio_ = std::max(staged_ratio_, reduction.staged_ratio());
    }
    const std::uint64_t bytes = place_bytes_ / staged_ratio_;
    const std::uint64_t unit = bytes < base::kCacheLine ? kLargestStaged : base::kCacheLine;
    piece_bytes_ = bytes / unit * unit;
}

void HierarchicalAllreduceTask::begin(const Batch& batch) {
    batch_ = batch;
    chunks_.clear();
    reductions_.clear();
    for (std::uint32_t i = 0; i < batch.segments.size(); ++i) {
        const std::uint64_t rows =
            batch.operation == Operation::reducescatter ? static_cast<std::uint64_t>(batch.rows[0]) : 1;
        // With only one host, nothing crosses the network, so nothing is compressed.
        const bool crosses = set_.hosts.count() > 1;
        const PartialReduction& partial = reductions_.emplace_back(
            in_partials(reduction(i), crosses ? batch.segments[i].compression : Compression::none));
        if (const std::uint64_t elements = rows * batch.segments[i].count; elements > 0) {
            chunks_.add(i, elements * partial.carried_bytes, partial.compressed.has_value());
        }
    }
    plan_pieces();
    chunk_count_ = chunks_.count();
    for (Cursor* cursor : {&staging_, &combining_, &delivering_, &fetching_}) {
        *cursor = {};
        go_to_chunk(*cursor, 0);
    }
    set_.begin_batch(HierarchicalSet::CellUse::allreduce);
    if (is_lane()) {
        pipeline_.begin(reductions_);
    }
}

// ---- pieces ---------------------------------------------------------------------------------------------------------

void HierarchicalAllreduceTask::go_to_chunk(Cursor& cursor, std::uint64_t index) const {
    cursor.chunk_index = index;
    cursor.piece = 0;
    if (!is_at_end(cursor)) {
        cursor.chunk = chunks_.chunk(index);
        cursor.pieces = (NetworkChunks::longest_share(cursor.chunk) + piece_bytes_ - 1) / piece_bytes_;
    }
}

void HierarchicalAllreduceTask::advance(Cursor& cursor) const {
    ++cursor.number;
    if (++cursor.piece == cursor.pieces) {
        go_to_chunk(cursor, cursor.chunk_index + 1);
    }
}

Range HierarchicalAllreduceTask::part(const Cursor& cursor, std::uint32_t lane) const {
    const Range share = NetworkChunks::share(cursor.chunk, lane);
    return {std::min(share.begin + cursor.piece * piece_bytes_, share.end),
            std::min(share.begin + (cursor.piece + 1) * piece_bytes_, share.end)};
}

std::byte* HierarchicalAllreduceTask::staged(std::uint32_t member, std::uint32_t lane, std::uint64_t number) const {
    return set_.cells_of(member) + (number % staging_places_ * set_.hosts.lanes() + lane) * place_bytes_;
}

std::byte* HierarchicalAllreduceTask::delivered(std::uint32_t lane, std::uint64_t number) const {
    return set_.cells_of(lane) + set_.bytes_of_cells() / 2 + number % delivery_places_ * place_bytes_;
}

const Location& HierarchicalAllreduceTask::location(std::uint32_t segment, std::uint32_t member) const {
    return batch_.locations[std::size_t{segment} * set_.members + member];
}

const std::byte* HierarchicalAllreduceTask::resident_input(std::uint32_t segment, std::uint32_t member) const {
    return reductions_[segment].in_words ? nullptr : location(segment, member).input;
}

/// In a reduce, only the root gets the result. A rank that has called join() has no memory for a result.
bool HierarchicalAllreduceTask::wants_result(std::uint32_t segment, std::uint32_t member) const {
    const std::uint32_t root = batch_.segments[segment].root;
    return !location(segment, member).absent &&
           (batch_.operation != Operation::reduce || (set_.hosts.is_here(root) && set_.hosts.local_of(root) == member));
}

/// Only the result of an allreduce is written directly to the outputs of other ranks. In a reducescatter each rank
/// copies its own rows, and in a reduce the root copies the result.
bool HierarchicalAllreduceTask::writes_directly(std::uint32_t segment, std::uint32_t member) const {
    return batch_.operation == Operation::allreduce && !reductions_[segment].in_words &&
           location(segment, member).output != nullptr;
}

void HierarchicalAllreduceTask::load_input(std::uint32_t segment, std::uint64_t offset, std::byte* place,
                                           std::uint64_t bytes) const {
    const std::byte* const input = batch_.segments[segment].input;
    const PartialReduction& partial = reductions_[segment];
    if (!partial.in_words) {
        const std::uint64_t ratio = partial.staged_ratio();
        ops::copy(place, input + offset * ratio, bytes * ratio);
        return;
    }
    const ops::Reduction whole = reduction(segment);
    ops::to_words(whole, input + offset / partial.carried_bytes * size_of(whole.dtype), place,
                  bytes / partial.carried_bytes);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

StepResult HierarchicalAllreduceTask::step() {
    last_work_ = StepWork::none;
    return set_.step(
        work_, [this] { return act(); }, [this] { return end(); });
}

bool HierarchicalAllreduceTask::end() {
    if (!is_at_end(fetching_) || (is_lane() && !pipeline_.all_sent())) {
        return false;
    }
    set_.end_batch(fetching_.number);
    return true;
}

/// Does one action, or returns false if there is nothing to do. Actions for which other ranks wait come first.
bool HierarchicalAllreduceTask::act() {
    if (is_lane() && pipeline_.step()) {
        last_work_ = StepWork::network;
        return true;
    }
    if (may_stage()) {
        last_work_ = StepWork::copy_in;
        stage();
        return true;
    }
    if (may_combine()) {
        last_work_ = StepWork::reduce;
        combine();
        return true;
    }
    if (may_deliver()) {
        last_work_ = StepWork::copy_out;
        deliver();
        return true;
    }
    if (may_fetch()) {
        last_work_ = StepWork::copy_out;
        fetch();
        return true;
    }
    return false;
}

bool HierarchicalAllreduceTask::lanes_reached(std::atomic<std::uint64_t> Progress::*counter,
                                              std::uint64_t value) const {
    for (std::uint32_t lane = 0; lane < set_.hosts.lanes(); ++lane) {
        if (lane != set_.rank && !set_.reached(lane, counter, value)) {
            return false;
        }
    }
    return true;
}

/// A place (a buffer in shared memory) may be reused when every rank that combines its earlier content has finished.
bool HierarchicalAllreduceTask::may_stage() const {
    if (is_at_end(staging_) || set_.members == 1) {
        return false;
    }
    const std::uint64_t number = number_of(staging_);
    return number < set_.run_begin + staging_places_ ? set_.run_may_begin()
                                                     : lanes_reached(&Progress::combined, number + 1 - staging_places_);
}

void HierarchicalAllreduceTask::stage() {
    const std::uint64_t number = number_of(staging_);
    for (std::uint32_t lane = 0; lane < staging_.chunk.lanes; ++lane) {
        const Range range = part(staging_, lane);
        if (lane == set_.rank || range.bytes() == 0) {
            continue;  // not staged: this rank combines its own input from its own memory
        }
        std::byte* const place = staged(set_.rank, lane, number);
        chunks_.map_of(staging_.chunk)
            .for_each_piece(
                range, [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
                    if (!location(segment, set_.rank).absent && resident_input(segment, set_.rank) == nullptr) {
                        load_input(segment, offset, place + (at - range.begin) * staged_ratio_, bytes);
                        work_ += bytes;
                    }
                });
    }
    advance(staging_);
    set_.publish(set_.mine().staged, number + 1);
}

bool HierarchicalAllreduceTask::may_combine() const {
    return is_lane() && !is_at_end(combining_) && pipeline_.is_open(combining_.chunk_index) &&
           set_.all_reached(&Progress::staged, number_of(combining_) + 1);
}

void HierarchicalAllreduceTask::combine() {
    const std::uint64_t number = number_of(combining_);
    const Range range = part(combining_, set_.rank);
    std::byte* const partials = pipeline_.partials(combining_.chunk_index) +
                                (range.begin - NetworkChunks::share(combining_.chunk, set_.rank).begin);
    chunks_.map_of(combining_.chunk)
        .for_each_piece(range, [&](std::uint32_t index, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
            const std::uint64_t ratio = reductions_[index].staged_ratio();
            std::array<const std::byte*, base::kMaxLocalRanks> sources{};
            std::size_t present = 0;
            for (std::uint32_t member = 0; member < set_.members; ++member) {
                if (location(index, member).absent) {
                    continue;
                }
                const std::byte* const resident = resident_input(index, member);
                sources[present++] = member == set_.rank ? own_input(index, offset, bytes)
                                     : resident != nullptr
                                         ? resident + offset * ratio
                                         : staged(member, set_.rank, number) + (at - range.begin) * staged_ratio_;
            }
            combine_segment(index, {sources.data(), present}, partials + (at - range.begin), bytes);
            work_ += bytes * ratio * set_.members;
        });
    const std::uint64_t chunk = combining_.chunk_index;
    advance(combining_);
    if (combining_.chunk_index != chunk) {
        pipeline_.filled(chunk);
    }
    if (set_.members > 1) {
        set_.publish(set_.mine().combined, number + 1);
    }
}

/// Returns this rank's own input in the form in which inputs are combined: as elements or, for exact sums, as words
/// (int64 values).
const std::byte* HierarchicalAllreduceTask::own_input(std::uint32_t segment, std::uint64_t offset,
                                                      std::uint64_t bytes) {
    if (!reductions_[segment].in_words) {
        return batch_.segments[segment].input + offset * reductions_[segment].staged_ratio();
    }
    own_words_.resize(piece_bytes_);
    load_input(segment, offset, own_words_.data(), bytes);
    return own_words_.data();
}

void HierarchicalAllreduceTask::combine_segment(std::uint32_t segment, std::span<const std::byte* const> sources,
                                                std::byte* partial, std::uint64_t bytes) {
    const PartialReduction& reduction = reductions_[segment];
    if (!reduction.compressed) {
        reduce_present(reduction.within, sources, partial, bytes / size_of(reduction.within.dtype));
        return;
    }
    const std::uint64_t elements = bytes / reduction.carried_bytes;
    combined_.resize(place_bytes_);
    reduce_present(reduction.within, sources, combined_.data(), elements);
    ops::compress(*reduction.compressed, combined_.data(), partial, elements);
}

/// Reduces the inputs of the ranks that have not called join(). If all ranks of this host have joined, writes neutral
/// elements (for example zeros for a sum) instead.
void HierarchicalAllreduceTask::reduce_present(const ops::Reduction& reduction,
                                               std::span<const std::byte* const> sources, std::byte* to,
                                               std::uint64_t count) {
    if (!sources.empty()) [[likely]] {
        ops::reduce(reduction, sources, {&to, 1}, count);
    } else {
        ops::fill_neutral(reduction, to, count);
    }
}

/// A place in shared memory may be reused when all ranks have copied the result that it held before.
bool HierarchicalAllreduceTask::may_deliver() const {
    if (!is_lane() || is_at_end(delivering_) || !pipeline_.is_ready(delivering_.chunk_index)) {
        return false;
    }
    const std::uint64_t number = number_of(delivering_);
    return set_.members == 1 || (number < set_.run_begin + delivery_places_
                                     ? set_.run_may_begin()
                                     : set_.all_reached(&Progress::fetched, number + 1 - delivery_places_));
}

void HierarchicalAllreduceTask::deliver() {
    const std::uint64_t number = number_of(delivering_);
    const Range range = part(delivering_, set_.rank);
    const std::byte* const results = pipeline_.results(delivering_.chunk_index) +
                                     (range.begin - NetworkChunks::share(delivering_.chunk, set_.rank).begin);
    chunks_.map_of(delivering_.chunk)
        .for_each_piece(range, [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
            const std::byte* const result = results + (at - range.begin);
            bool somebody_fetches = false;
            for (std::uint32_t member = 0; member < set_.members; ++member) {
                if (!wants_result(segment, member)) {
                    continue;
                }
                if (member == set_.rank) {
                    write_output(segment, offset, result, bytes);
                } else if (writes_directly(segment, member)) {
                    write_to(location(segment, member).output, segment, offset, result, bytes);
                } else {
                    somebody_fetches = true;
                    continue;
                }
                work_ += bytes;
            }
            if (somebody_fetches) {
                ops::copy(delivered(set_.rank, number) + (at - range.begin), result, bytes);
                work_ += bytes;
            }
        });
    const std::uint64_t chunk = delivering_.chunk_index;
    advance(delivering_);
    if (delivering_.chunk_index != chunk) {
        pipeline_.delivered();
    }
    if (set_.members > 1) {
        set_.publish(set_.mine().reduced, number + 1);
    }
}

bool HierarchicalAllreduceTask::may_fetch() const {
    return !is_at_end(fetching_) && (!is_lane() || fetching_.number < delivering_.number) &&
           lanes_reached(&Progress::reduced, number_of(fetching_) + 1);
}

void HierarchicalAllreduceTask::fetch() {
    const std::uint64_t number = number_of(fetching_);
    for (std::uint32_t lane = 0; lane < fetching_.chunk.lanes; ++lane) {
        const Range range = part(fetching_, lane);
        if (lane == set_.rank || range.bytes() == 0) {
            continue;
        }
        const std::byte* const place = delivered(lane, number);
        chunks_.map_of(fetching_.chunk)
            .for_each_piece(range,
                            [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
                                if (wants_result(segment, set_.rank) && !writes_directly(segment, set_.rank)) {
                                    write_output(segment, offset, place + (at - range.begin), bytes);
                                    work_ += bytes;
                                }
                            });
    }
    advance(fetching_);
    if (set_.members > 1) {
        set_.publish(set_.mine().fetched, number + 1);
    }
}

/// The range of the tensor's result that this rank stores in its output.
Range HierarchicalAllreduceTask::kept(std::uint32_t segment) const {
    const std::uint64_t row = batch_.segments[segment].count * reductions_[segment].carried_bytes;
    if (batch_.operation != Operation::reducescatter) {
        return {0, wants_result(segment, set_.rank) ? row : 0};
    }
    const Rows rows = rows_of_member(batch_.rows[0], set_.hosts.my_rank(), set_.hosts.size());
    return {static_cast<std::uint64_t>(rows.begin) * row, static_cast<std::uint64_t>(rows.begin + rows.count) * row};
}

void HierarchicalAllreduceTask::write_output(std::uint32_t segment, std::uint64_t offset, const std::byte* result,
                                             std::uint64_t bytes) const {
    const Range keep = kept(segment);
    const std::uint64_t begin = std::max(offset, keep.begin);
    const std::uint64_t end = std::min(offset + bytes, keep.end);
    if (begin >= end) {
        return;
    }
    write_to(batch_.segments[segment].output, segment, begin - keep.begin, result + (begin - offset), end - begin);
}

/// Writes `bytes` bytes of a result to `output`. `offset` is the position in the output. It counts bytes in the form in
/// which they cross the network: elements, compressed elements, or int64 values for exact sums.
void HierarchicalAllreduceTask::write_to(std::byte* output, std::uint32_t segment, std::uint64_t offset,
                                         const std::byte* result, std::uint64_t bytes) const {
    const PartialReduction& partial = reductions_[segment];
    const std::uint64_t first = offset / partial.carried_bytes;
    const std::uint64_t elements = bytes / partial.carried_bytes;
    if (partial.in_words) {
        const ops::Reduction whole = reduction(segment);
        ops::average_words(whole, result, output + first * size_of(whole.dtype), elements);
    } else if (partial.compressed) {
        ops::expand(*partial.compressed, result, output + first * size_of(partial.compressed->dtype),
                    partial.expanded_by, elements);
    } else {
        ops::copy(output + offset, result, bytes);
    }
}

}  // namespace rueda::collectives
