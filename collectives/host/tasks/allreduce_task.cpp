// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/allreduce_task.hpp"

#include <algorithm>
#include <array>

namespace rueda::collectives {
namespace {

/// How many bytes one step processes, if the tensor is not cut into chunks. The number is about the size of a chunk.
/// Steps are therefore short, and the engine can often check for an abort and step other tasks.
constexpr std::uint64_t kStepBytes = 128 * 1024;

/// If the inputs of all ranks together have at most this many bytes, every rank combines all of them. The ranks then
/// wait for each other once instead of twice. If each rank combined only a share, fewer cache lines would move between
/// cores.
constexpr std::uint64_t kWholeBytes = 64 * 1024;

/// The limits for two ranks, in bytes per rank. Each rank combines either a share of the tensors or the whole tensors.
/// With two ranks, both methods move the same number of cache lines, so the limits were found by measurement. From 8 to
/// 24 KiB, shares are faster by 3 to 10 %. From 24 to 40 KiB, whole tensors are faster by 8 to 15 %. Above 40 KiB,
/// shares are faster again (docs/design/collectives.md).
constexpr std::uint64_t kSharesOfTwoFrom = 8 * 1024;
constexpr std::uint64_t kWholeOfTwoFrom = 24 * 1024;
constexpr std::uint64_t kWholeOfTwoTo = 40 * 1024;

bool is_exchanged_whole(std::uint64_t bytes, std::uint32_t members) {
    if (members == 2) {
        return bytes < kSharesOfTwoFrom || (bytes >= kWholeOfTwoFrom && bytes <= kWholeOfTwoTo);
    }
    return bytes <= kWholeBytes / members;
}

}  // namespace

bool AllreduceTask::is_resident(std::span<const Location> locations) const {
    return std::all_of(locations.begin(), locations.end(),
                       [](const Location& l) { return l.absent || (l.input != nullptr && l.output != nullptr); });
}

void AllreduceTask::begin(const Batch& batch) {
    batch_ = batch;
    inline_.clear();
    inline_done_ = 0;
    resident_.clear();
    staged_.clear();
    for (std::uint32_t i = 0; i < batch.segments.size(); ++i) {
        const Segment& segment = batch.segments[i];
        const auto locations = batch.locations_of(i, set_.members);
        if (segment.count == 0) {
            continue;
        }
        if (set_.members == 1) {
            ops::reduce(segment.reduction(1), {&segment.input, 1}, {&segment.output, 1}, segment.count);
        } else if (all_travelled(locations)) {
            inline_.push_back(i);
        } else if (is_resident(locations)) {
            resident_.add(i, segment.bytes());
        } else {
            staged_.add(i, segment.bytes());
        }
    }
    resident_published_ = false;
    if (resident_.bytes() > 0) {
        my_resident_share_ = SegmentMap::share({0, resident_.bytes()}, set_.rank, set_.members);
        resident_done_ = my_resident_share_.begin;
    }
    chunk_count_ = 0;
    if (staged_.bytes() > 0) {
        chunk_bytes_ = set_.arena->plan().cell_bytes;
        chunk_count_ = (staged_.bytes() + chunk_bytes_ - 1) / chunk_bytes_;
        whole_ = chunk_count_ == 1 && is_exchanged_whole(staged_.bytes(), set_.members);
    }
    staged_chunks_ = reduced_chunks_ = fetched_chunks_ = 0;
}

StepResult AllreduceTask::step() {
    last_work_ = StepWork::none;
    if (inline_done_ < inline_.size()) {
        step_inline();
        if (inline_done_ < inline_.size() || resident_.bytes() > 0 || chunk_count_ > 0) {
            return StepResult::advanced;
        }
    }
    StepResult resident = StepResult::done;
    if (resident_.bytes() > 0) {
        resident = step_resident();
        if (resident == StepResult::advanced) {
            return resident;
        }
    }
    const StepResult staged = fetched_chunks_ < chunk_count_ ? step_staged() : StepResult::done;
    if (staged != StepResult::done) {
        return staged;
    }
    if (resident == StepResult::done) {
        set_.chunks += chunk_count_;
        set_.resident_batches += resident_.bytes() > 0 ? 1U : 0U;
    }
    return resident;
}

std::optional<BatchChunks> AllreduceTask::chunks() const {
    return chunk_count_ > 0 ? std::optional(BatchChunks{set_.chunks, chunk_count_}) : std::nullopt;
}

/// Combines a piece of a segment, in rank order. This rank's own input and output are used directly.
///
/// If `for_all` is true, the result is also written for every other member: to the member's output if this output is in
/// the arena (shared memory), otherwise to the member's cell. The other members then wait until all ranks have
/// combined, and do not change their inputs. This rank may therefore read an input directly if the input is in the
/// arena.
///
/// If `for_all` is false, the other members do not wait. A member may change its input as soon as it has announced or
/// staged this input. This rank may therefore read only the announced or staged copy.
void AllreduceTask::combine(const Piece& piece, bool for_all) const {
    const Segment& segment = batch_.segments[piece.segment];
    const auto locations = batch_.locations_of(piece.segment, set_.members);
    if (!for_all && locations[set_.rank].absent) {
        return;
    }
    // Only the first elements of these arrays are used. To initialise all of them would take longer than to combine a
    // tiny tensor.
    std::array<const std::byte*, base::kMaxLocalRanks> sources;
    std::array<std::byte*, base::kMaxLocalRanks> destinations;
    std::size_t written = 0;
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        const Location& location = locations[member];
        if (location.absent) {
            continue;
        }
        if (member == set_.rank) {
            // This rank's input and the announced or staged copy of this input have the same content. This rank reads
            // the input itself. The cache lines of the copy then stay with the cores of the other ranks, which read the
            // copy.
            sources[member] = segment.input + piece.offset;
            destinations[written++] = segment.output + piece.offset;
            continue;
        }
        const std::byte* const readable = for_all ? location.input : location.payload;
        std::byte* const cell = set_.arena->cell(member, set_.chunks + piece.chunk) + piece.in_cell;
        sources[member] = readable != nullptr ? readable + piece.offset : cell;
        if (for_all) {
            destinations[written++] = location.output != nullptr ? location.output + piece.offset : cell;
        }
    }
    set_.reduce(segment, locations, {sources.data(), set_.members}, {destinations.data(), written},
                piece.bytes / size_of(segment.dtype));
}

// ---- inline ---------------------------------------------------------------------------------------------------------

/// Prefetches the beginning of each input that another member has sent with its announcement. The processor itself
/// loads the rest in advance, but it notices only after the first lines that a new input is read.
void AllreduceTask::prefetch_payloads(std::uint32_t segment) const {
    constexpr std::uint64_t kPrefetched = 256;
    const auto locations = batch_.locations_of(segment, set_.members);
    const std::uint64_t bytes = std::min(batch_.segments[segment].bytes(), kPrefetched);
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        if (member != set_.rank && locations[member].payload != nullptr) {
            for (std::uint64_t offset = 0; offset < bytes; offset += base::kCacheLine) {
                __builtin_prefetch(locations[member].payload + offset);
            }
        }
    }
}

void AllreduceTask::step_inline() {
    last_work_ = StepWork::reduce;
    constexpr std::size_t kAhead = 4;  // while four small tensors are combined, a line arrives from another core
    for (std::uint64_t work = 0; inline_done_ < inline_.size() && work < kStepBytes; ++inline_done_) {
        const std::uint32_t segment = inline_[inline_done_];
        const std::uint64_t bytes = batch_.segments[segment].bytes();
        if (inline_done_ + kAhead < inline_.size()) {
            prefetch_payloads(inline_[inline_done_ + kAhead]);
        }
        combine({.segment = segment, .bytes = bytes}, /*for_all=*/false);
        work += bytes * set_.members;
    }
}

// ---- resident ---------------------------------------------------------------------------------------------------

StepResult AllreduceTask::step_resident() {
    if (resident_done_ < my_resident_share_.end) {
        const Range piece{resident_done_, std::min(resident_done_ + kStepBytes, my_resident_share_.end)};
        last_work_ = StepWork::reduce;
        reduce_resident(piece);
        resident_done_ = piece.end;
    }
    if (resident_done_ < my_resident_share_.end) {
        return StepResult::advanced;
    }
    if (!resident_published_) {
        set_.publish(set_.mine().resident, set_.resident_batches + 1);
        resident_published_ = true;
    }
    // Other members may read this rank's inputs and write its outputs until all members have combined their shares.
    return set_.all_reached(&Progress::resident, set_.resident_batches + 1) ? StepResult::done : StepResult::waiting;
}

void AllreduceTask::reduce_resident(Range range) const {
    resident_.for_each_piece(range,
                             [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t) {
                                 combine({segment, offset, bytes}, /*for_all=*/true);
                             });
}

// ---- staged -----------------------------------------------------------------------------------------------------

Range AllreduceTask::chunk(std::uint64_t index) const {
    return {index * chunk_bytes_, std::min((index + 1) * chunk_bytes_, staged_.bytes())};
}

/// Does one action. Tries to stage a chunk (at most one chunk ahead). If it cannot, it tries to combine a chunk, and
/// then to fetch one. The actions have this order because the other ranks wait most for staging, and least for
/// fetching.
StepResult AllreduceTask::step_staged() {
    const std::uint64_t before = set_.chunks;
    if (may_stage()) {
        last_work_ = StepWork::copy_in;
        stage(staged_chunks_++);
        set_.publish(set_.mine().staged, before + staged_chunks_);
        return StepResult::advanced;
    }
    if (reduced_chunks_ < staged_chunks_ && set_.all_reached(&Progress::staged, before + reduced_chunks_ + 1)) {
        last_work_ = StepWork::reduce;
        reduce_chunk(reduced_chunks_++);
        fetched_chunks_ = whole_ ? reduced_chunks_ : fetched_chunks_;
        if (fetched_chunks_ == chunk_count_) {
            // `fetched` is stored without publish(), which would wake waiting ranks: the publish() of `reduced` below
            // wakes them anyway. The other ranks load `fetched` in later batches, in cell_is_free().
            set_.mine().fetched.store(before + chunk_count_, std::memory_order_seq_cst);
        }
        set_.publish(set_.mine().reduced, before + reduced_chunks_);
        return fetched_chunks_ == chunk_count_ ? StepResult::done : StepResult::advanced;
    }
    if (fetched_chunks_ < reduced_chunks_ && set_.all_reached(&Progress::reduced, before + fetched_chunks_ + 1)) {
        last_work_ = StepWork::copy_out;
        fetch(fetched_chunks_++);
        // All ranks have combined this chunk, so they no longer read or write this rank's cell (its buffer in shared
        // memory). This also holds for the chunks of earlier batches, because every rank ends those batches before it
        // begins this chunk.
        set_.free_chunks = before + fetched_chunks_;
        if (fetched_chunks_ == chunk_count_) {
            // `fetched` is published only here, because now no rank writes to this rank's buffers any more.
            set_.publish(set_.mine().fetched, before + chunk_count_);
        }
        return fetched_chunks_ == chunk_count_ ? StepResult::done : StepResult::advanced;
    }
    return StepResult::waiting;
}

/// A chunk may be staged (copied to a buffer in shared memory) if two conditions hold for its buffer. First, this rank
/// has already fetched the results that the buffer held before. Second, no other rank still reads the inputs that the
/// buffer held before. Within a batch, the first condition implies the second: a chunk is fetched only after all ranks
/// have combined it.
bool AllreduceTask::may_stage() const {
    return staged_chunks_ < chunk_count_ && staged_chunks_ < reduced_chunks_ + 2 &&
           staged_chunks_ < fetched_chunks_ + set_.arena->plan().cells_per_rank &&
           set_.cell_is_free(set_.chunks + staged_chunks_);
}

void AllreduceTask::stage(std::uint64_t index) {
    const Range all = chunk(index);
    const Range own = whole_ ? Range{all.end, all.end} : SegmentMap::share(all, set_.rank, set_.members);
    std::byte* cell = set_.arena->cell(set_.rank, set_.chunks + index);
    const auto copy_piece = [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
        const Location& mine = batch_.locations_of(segment, set_.members)[set_.rank];
        if (!mine.absent && (whole_ || mine.input == nullptr)) {
            ops::copy(cell + (at - all.begin), batch_.segments[segment].input + offset, bytes);
        }
    };
    staged_.for_each_piece({all.begin, own.begin}, copy_piece);
    staged_.for_each_piece({own.end, all.end}, copy_piece);
}

/// Combines a whole chunk for this rank alone, or this rank's share of the chunk for all members. For a share, the
/// result replaces each member's input in that member's cell (its buffer in shared memory). Each cache line of the cell
/// then moves twice: to the core that combines it, and back to the core that staged it and will stage there again. If
/// the result went to the combining rank's own cell instead, a line of that cell would have to move, too.
void AllreduceTask::reduce_chunk(std::uint64_t index) const {
    const Range all = chunk(index);
    const Range own = whole_ ? all : SegmentMap::share(all, set_.rank, set_.members);
    staged_.for_each_piece(own,
                           [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
                               combine({segment, offset, bytes, index, at - all.begin}, !whole_);
                           });
}

void AllreduceTask::fetch(std::uint64_t index) {
    const Range all = chunk(index);
    const Range own = SegmentMap::share(all, set_.rank, set_.members);
    const std::byte* cell = set_.arena->cell(set_.rank, set_.chunks + index);
    const auto copy_piece = [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
        const Location& mine = batch_.locations_of(segment, set_.members)[set_.rank];
        if (!mine.absent && mine.output == nullptr) {
            ops::copy(batch_.segments[segment].output + offset, cell + (at - all.begin), bytes);
        }
    };
    staged_.for_each_piece({all.begin, own.begin}, copy_piece);
    staged_.for_each_piece({own.end, all.end}, copy_piece);
}

}  // namespace rueda::collectives
