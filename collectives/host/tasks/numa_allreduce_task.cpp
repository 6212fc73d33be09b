// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/numa_allreduce_task.hpp"

#include <algorithm>
#include <array>

namespace rueda::collectives {
namespace {

/// As in AllreduceTask: up to this many bytes of all ranks together, saving one wait is worth the additional cache
/// lines. Not measured between NUMA nodes.
constexpr std::uint64_t kSmallBytes = 64 * 1024;

}  // namespace

NumaAllreduceTask::NumaAllreduceTask(HostSet& set) : set_(set) {
    if (set_.nodes.combine_first()) {
        node_ = set_.nodes.node_of(set_.rank);
    }
}

bool NumaAllreduceTask::suits(const Batch& batch) const {
    return set_.nodes.combine_first() && suits_large(batch);  // batches for which no members are combined first end
                                                              // here, after one comparison
}

bool NumaAllreduceTask::suits_large(const Batch& batch) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < batch.segments.size(); ++i) {
        const Segment& segment = batch.segments[i];
        if (segment.absent > 0) {
            return false;
        }
        if (segment.count == 0 || all_travelled(batch.locations_of(i, set_.members))) {
            continue;
        }
        if (!ops::levels_of(segment.reduction(set_.members))) {
            return false;
        }
        bytes += segment.bytes();
    }
    return bytes > kSmallBytes / set_.members;
}

void NumaAllreduceTask::begin(const Batch& batch) {
    batch_ = batch;
    inline_.clear();
    map_.clear();
    for (std::uint32_t i = 0; i < batch.segments.size(); ++i) {
        if (batch.segments[i].count == 0) {
            continue;
        }
        if (all_travelled(batch.locations_of(i, set_.members))) {
            inline_.add(i);
        } else {
            map_.add(i, batch.segments[i].bytes());
        }
    }
    chunk_bytes_ = set_.arena->plan().cell_bytes;
    chunk_count_ = (map_.bytes() + chunk_bytes_ - 1) / chunk_bytes_;
    staged_chunks_ = combined_chunks_ = reduced_chunks_ = fetched_chunks_ = 0;
}

/// Does one action. For each chunk, an action waits only for the preceding action of other ranks. So for the first
/// chunk that some rank has not fetched, whose cells are free, some action is always possible.
StepResult NumaAllreduceTask::step() {
    const std::uint64_t before = set_.chunks;
    if (!inline_.is_done()) {
        inline_.step(batch_, set_);
        return StepResult::advanced;
    }
    if (may_stage()) {
        stage(staged_chunks_++);
        set_.publish(set_.mine().staged, before + staged_chunks_);
        return StepResult::advanced;
    }
    if (may_combine()) {
        combine(combined_chunks_++);
        set_.publish(set_.mine().combined, before + combined_chunks_);
        return StepResult::advanced;
    }
    if (may_go_across()) {
        across(reduced_chunks_++);
        set_.publish(set_.mine().reduced, before + reduced_chunks_);
        return StepResult::advanced;
    }
    if (!may_fetch()) {
        return StepResult::waiting;
    }
    fetch(fetched_chunks_++);
    // Partner: cell_is_free(), here and in whatever comes after this batch.
    set_.publish(set_.mine().fetched, before + fetched_chunks_);
    if (fetched_chunks_ < chunk_count_) {
        return StepResult::advanced;
    }
    // All ranks have `reduced` all chunks, so nobody reads this rank's inputs any more. Only this rank writes its
    // output.
    set_.chunks += chunk_count_;
    return StepResult::done;
}

// ---- who has what ---------------------------------------------------------------------------------------------------

Range NumaAllreduceTask::chunk(std::uint64_t index) const {
    return {index * chunk_bytes_, std::min((index + 1) * chunk_bytes_, map_.bytes())};
}

Range NumaAllreduceTask::part_of(std::uint32_t member, Range all) const {
    const auto size = static_cast<std::uint32_t>(set_.nodes.members_of(set_.nodes.node_of(member)).size());
    return SegmentMap::share(all, set_.nodes.index_of(member), size);
}

/// The final shares are assigned by turns: with h nodes of equal size, the final shares i·h … i·h + h − 1 lie within
/// the parts of the nodes' members i.
Range NumaAllreduceTask::final_share(Range all) const {
    return SegmentMap::share(all, set_.nodes.turn_of(set_.rank), set_.members);
}

NumaAllreduceTask::Stretch NumaAllreduceTask::stretch_at(std::uint64_t begin, Range all) const {
    Stretch stretch{{begin, final_share(all).end}, {}};
    for (std::uint32_t node = 0; node < set_.nodes.count(); ++node) {
        for (const std::uint32_t member : set_.nodes.members_of(node)) {
            const Range part = part_of(member, all);
            if (part.begin <= begin && begin < part.end) {
                stretch.owners[node] = member;
                stretch.range.end = std::min(stretch.range.end, part.end);
            }
        }
    }
    return stretch;
}

// ---- the phases -----------------------------------------------------------------------------------------------------

/// The other ranks of this node, and this rank, must have fetched the cell's previous content. All other ranks have
/// written their results of that chunk by then, because a rank waits for that before it fetches.
bool NumaAllreduceTask::may_stage() const {
    return staged_chunks_ < chunk_count_ && staged_chunks_ < combined_chunks_ + 2 &&
           staged_chunks_ < fetched_chunks_ + set_.arena->plan().cells_per_rank &&
           set_.cell_is_free(set_.chunks + staged_chunks_);
}

void NumaAllreduceTask::stage(std::uint64_t index) {
    const Range all = chunk(index);
    const Range own = part_of(set_.rank, all);
    std::byte* const cell = set_.arena->cell(set_.rank, set_.chunks + index);
    const auto copy_piece = [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
        if (batch_.locations_of(segment, set_.members)[set_.rank].input == nullptr) {
            ops::copy(cell + (at - all.begin), batch_.segments[segment].input + offset, bytes);
        }
    };
    map_.for_each_piece({all.begin, own.begin}, copy_piece);
    map_.for_each_piece({own.end, all.end}, copy_piece);
}

bool NumaAllreduceTask::may_combine() const {
    if (combined_chunks_ == staged_chunks_) {
        return false;
    }
    const auto mates = set_.nodes.members_of(node_);
    return std::all_of(mates.begin(), mates.end(), [&](std::uint32_t member) {
        return member == set_.rank || set_.reached(member, &Progress::staged, set_.chunks + combined_chunks_ + 1);
    });
}

/// The partial result lies in this rank's own cell, where this rank staged nothing: there the other ranks of the node
/// have nothing to combine.
void NumaAllreduceTask::combine(std::uint64_t index) {
    const Range all = chunk(index);
    const std::uint64_t number = set_.chunks + index;
    const auto mates = set_.nodes.members_of(node_);
    map_.for_each_piece(part_of(set_.rank, all), [&](std::uint32_t segment_index, std::uint64_t offset,
                                                     std::uint64_t bytes, std::uint64_t at) {
        const Segment& segment = batch_.segments[segment_index];
        const auto locations = batch_.locations_of(segment_index, set_.members);
        std::array<const std::byte*, base::kMaxLocalRanks> sources{};
        for (std::size_t i = 0; i < mates.size(); ++i) {
            const std::uint32_t member = mates[i];
            sources[i] = member == set_.rank                  ? segment.input + offset
                         : locations[member].input != nullptr ? locations[member].input + offset
                                                              : set_.arena->cell(member, number) + (at - all.begin);
        }
        std::byte* const partial = set_.arena->cell(set_.rank, number) + (at - all.begin);
        ops::reduce(ops::levels_of(segment.reduction(set_.members))->within, {sources.data(), mates.size()},
                    {&partial, 1}, bytes / size_of(segment.dtype));
    });
}

/// Waits also for the ranks of this node: a result in this rank's output must not overwrite an input that is still to
/// be combined.
bool NumaAllreduceTask::may_go_across() const {
    if (reduced_chunks_ == combined_chunks_) {
        return false;
    }
    const Range all = chunk(reduced_chunks_);
    const Range own = final_share(all);
    for (std::uint64_t begin = own.begin; begin < own.end;) {
        const Stretch stretch = stretch_at(begin, all);
        for (std::uint32_t node = 0; node < set_.nodes.count(); ++node) {
            const std::uint32_t owner = stretch.owners[node];
            if (owner != set_.rank && !set_.reached(owner, &Progress::combined, set_.chunks + reduced_chunks_ + 1)) {
                return false;
            }
        }
        begin = stretch.range.end;
    }
    return true;
}

void NumaAllreduceTask::across(std::uint64_t index) {
    const Range all = chunk(index);
    const Range own = final_share(all);
    std::array<std::byte*, base::kMaxLocalRanks> cells{};  // by node
    for (std::uint64_t begin = own.begin; begin < own.end;) {
        const Stretch stretch = stretch_at(begin, all);
        for (std::uint32_t node = 0; node < set_.nodes.count(); ++node) {
            cells[node] = set_.arena->cell(stretch.owners[node], set_.chunks + index);
        }
        across(stretch, cells.data(), all);
        begin = stretch.range.end;
    }
}

void NumaAllreduceTask::across(const Stretch& stretch, std::byte* const* cells, Range all) {
    const std::uint32_t nodes = set_.nodes.count();
    map_.for_each_piece(
        stretch.range, [&](std::uint32_t segment_index, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
            const Segment& segment = batch_.segments[segment_index];
            std::array<const std::byte*, base::kMaxLocalRanks> sources{};
            std::array<std::byte*, base::kMaxLocalRanks + 1> destinations{};
            for (std::uint32_t node = 0; node < nodes; ++node) {
                destinations[node] = cells[node] + (at - all.begin);
                sources[node] = destinations[node];
            }
            destinations[nodes] = segment.output + offset;
            ops::reduce(ops::levels_of(segment.reduction(set_.members))->across, {sources.data(), nodes},
                        {destinations.data(), nodes + 1}, bytes / size_of(segment.dtype));
        });
}

bool NumaAllreduceTask::may_fetch() const {
    return fetched_chunks_ < reduced_chunks_ && set_.all_reached(&Progress::reduced, set_.chunks + fetched_chunks_ + 1);
}

void NumaAllreduceTask::fetch(std::uint64_t index) {
    const Range all = chunk(index);
    const Range own = final_share(all);  // is already there
    for (const std::uint32_t member : set_.nodes.members_of(node_)) {
        const Range part = part_of(member, all);
        const std::byte* const cell = set_.arena->cell(member, set_.chunks + index);
        const auto copy_piece = [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes,
                                    std::uint64_t at) {
            ops::copy(batch_.segments[segment].output + offset, cell + (at - all.begin), bytes);
        };
        map_.for_each_piece({part.begin, std::clamp(own.begin, part.begin, part.end)}, copy_piece);
        map_.for_each_piece({std::clamp(own.end, part.begin, part.end), part.end}, copy_piece);
    }
}

}  // namespace rueda::collectives
