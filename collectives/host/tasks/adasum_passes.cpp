// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/adasum_passes.hpp"

#include <algorithm>
#include <utility>

#include "collectives/host/tasks/cell_pieces.hpp"

namespace rueda::collectives {
namespace {

/// The size in bytes of a piece on a host with one rank. Such a host does not copy through shared memory.
constexpr std::uint64_t kPieceOfOne = 64 * 1024;

/// How many bytes of each input one step processes, if the inputs are combined directly in shared memory. Such inputs
/// are not divided into chunks.
constexpr std::uint64_t kPieceInPlace = 32 * 1024;

std::uint64_t bytes_of_piece(const HostSet& set, std::uint32_t owners) {
    return set.members == 1 ? kPieceOfOne : bytes_of_cell_piece(set.arena->plan().cell_bytes, owners);
}

}  // namespace

AdasumPasses::AdasumPasses(HostSet& set, std::uint32_t owners, MayWrite may_write)
    : set_(set),
      owners_(owners),
      may_write_(std::move(may_write)),
      numbers_sum_(set),
      piece_bytes_(bytes_of_piece(set, owners)) {}

void AdasumPasses::cut(const Batch& batch, std::uint32_t parts, std::span<PartMap> maps) {
    const auto owners = static_cast<std::uint32_t>(maps.size());
    const std::uint32_t of_each = parts / owners;
    for (PartMap& map : maps) {
        map.clear();
    }
    // An owner is a rank that computes results. If it has several parts of each tensor, its map contains the first
    // parts of all tensors, then the second parts, and so on. In a set on several hosts, the n-th parts of all tensors
    // go to host n, so they must be contiguous.
    for (std::uint32_t turn = 0; turn < of_each; ++turn) {
        for (std::uint32_t owner = 0; owner < owners; ++owner) {
            const std::uint32_t part = owner * of_each + turn;
            for (std::uint32_t segment = 0; segment < batch.segments.size(); ++segment) {
                const std::uint64_t bytes = batch.segments[segment].bytes();
                maps[owner].add(segment,
                                {ops::part_begin(bytes, part, parts), ops::part_begin(bytes, part + 1, parts)});
            }
        }
    }
}

void AdasumPasses::begin(const Batch& batch, std::span<const PartMap> maps) {
    to_outputs_ = true;
    start(batch, maps);
}

void AdasumPasses::begin_into(const Batch& batch, std::span<const PartMap> maps, std::byte* results) {
    to_outputs_ = false;
    results_ = results;
    start(batch, maps);
}

void AdasumPasses::start(const Batch& batch, std::span<const PartMap> maps) {
    batch_ = batch;
    maps_ = maps;
    has_in_place_ = false;
    in_place_.assign(batch.segments.size(), false);
    bool is_empty = true;
    for (std::uint32_t segment = 0; segment < batch.segments.size(); ++segment) {
        const bool has_elements = batch.segments[segment].count > 0;
        is_empty = is_empty && !has_elements;
        in_place_[segment] = has_elements && goes_in_place(segment);
        has_in_place_ = has_in_place_ || in_place_[segment];
    }
    std::uint64_t longest = 0;
    staged_maps_.resize(maps.size());
    for (std::size_t owner = 0; owner < maps.size(); ++owner) {
        staged_maps_[owner].choose(maps[owner], [this](std::uint32_t segment) { return !in_place_[segment]; });
        longest = std::max(longest, staged_maps_[owner].bytes());
    }
    pieces_ = (longest + piece_bytes_ - 1) / piece_bytes_;
    dots_.assign(batch.segments.size() * ops::pairs_of(set_.members), 0.0);
    weights_.resize(batch.segments.size() * set_.members);
    number_chunks_ = is_empty ? 0 : NumbersSum::chunks_of(set_, dots_.size());
    stays_ = set_.members > 1 && pieces_ > 0 && pieces_ + number_chunks_ <= set_.arena->plan().cells_per_rank;
    staged_ = measured_ = combined_ = fetched_ = in_place_at_ = 0;
    in_place_is_done_ = !has_in_place_;
    phase_ = is_empty ? Phase::done : Phase::measure;
}

/// Whether the tensor is processed directly in the members' memory, without copies. All ranks get the same answer.
bool AdasumPasses::goes_in_place(std::uint32_t segment) const {
    const auto of = batch_.locations_of(segment, set_.members);
    return std::all_of(of.begin(), of.end(), [this](const Location& l) {
        return l.absent || (l.input != nullptr && (l.output != nullptr || !to_outputs_));
    });
}

bool AdasumPasses::act(std::uint64_t& work) {
    switch (phase_) {
        case Phase::measure:
            if (is_measured()) {
                phase_ = Phase::numbers;
                numbers_sum_.begin(dots_, owners_, pieces_, stays_);
                return true;
            }
            return stage_next(0, measured_, work) || measure_in_place(work) || measure(work);
        case Phase::numbers:
            return sum_numbers();
        case Phase::combine:
            if (is_combined()) {
                phase_ = Phase::done;
                return true;
            }
            return (!stays_ && stage_next(first_combined(), to_outputs_ ? fetched_ : combined_, work)) ||
                   combine_in_place(work) || combine(work) || fetch(work);
        case Phase::done:
            break;
    }
    return false;
}

// ---- in place -------------------------------------------------------------------------------------------------------

/// Takes the next piece of this rank's part. Calls f for everything in this piece that is processed directly in the
/// members' memory. Returns false if there is no next piece.
template <class F>
bool AdasumPasses::next_in_place(F&& f, std::uint64_t& work) {
    if (in_place_is_done_) {
        return false;
    }
    const std::uint64_t all = is_owner() ? maps_[set_.rank].bytes() : 0;
    const std::uint64_t end = std::min(in_place_at_ + kPieceInPlace, all);
    if (is_owner()) {
        maps_[set_.rank].for_each_piece({in_place_at_, end}, [&](const PartMap::Part& part, std::uint64_t offset,
                                                                 std::uint64_t bytes, std::uint64_t) {
            if (in_place_[part.segment]) {
                sources_.clear();
                for (std::uint32_t member = 0; member < set_.members; ++member) {
                    const Location& of = location(part.segment, member);
                    sources_.push_back(of.absent ? nullptr : of.input + offset);
                }
                f(part, offset, bytes);
                work += bytes * set_.members;
            }
        });
    }
    in_place_at_ = end;
    in_place_is_done_ = end == all;
    return true;
}

bool AdasumPasses::measure_in_place(std::uint64_t& work) {
    return next_in_place([this](const PartMap::Part& part, std::uint64_t offset,
                                std::uint64_t bytes) { measure_part(part, offset, bytes); },
                         work);
}

bool AdasumPasses::combine_in_place(std::uint64_t& work) {
    const bool acted = next_in_place(
        [this](const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes) {
            destinations_.clear();
            for (std::uint32_t member = 0; to_outputs_ && member < set_.members; ++member) {
                if (const Location& of = location(part.segment, member); !of.absent) {
                    destinations_.push_back(of.output + offset);
                }
            }
            combine_part(part, offset, bytes);
        },
        work);
    if (acted && in_place_is_done_ && wrote_in_place()) {
        // The other ranks load `resident` in is_combined().
        set_.publish(set_.mine().resident, set_.resident_batches + 1);
    }
    return acted;
}

bool AdasumPasses::is_combined() const {
    return in_place_is_done_ && (to_outputs_ ? fetched_ : combined_) == pieces_ &&
           (!wrote_in_place() || set_.all_reached(&Progress::resident, set_.resident_batches + 1));
}

/// Computes the dot products of the elements in sources_, which are the next elements of a part. Adds them to the
/// part's sums.
void AdasumPasses::measure_part(const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes) {
    const DType dtype = batch_.segments[part.segment].dtype;
    const std::size_t pairs = ops::pairs_of(set_.members);
    if (offset == part.range.begin) {
        products_.begin(dtype, set_.members);
    }
    products_.add(sources_, bytes / size_of(dtype));
    if (offset + bytes == part.range.end) {
        products_.end(std::span(dots_).subspan(part.segment * pairs, pairs));
    }
}

/// Combines the elements in sources_. Writes the result to destinations_ or, if results do not go to the outputs, to
/// results_.
void AdasumPasses::combine_part(const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes) {
    const DType dtype = batch_.segments[part.segment].dtype;
    if (!to_outputs_) {
        destinations_.assign(1, results_ + part.home + (offset - part.range.begin));
    }
    ops::weighted_sum(dtype, sources_,
                      std::span(weights_).subspan(std::size_t{part.segment} * set_.members, set_.members),
                      destinations_, bytes / size_of(dtype));
}

// ---- staging --------------------------------------------------------------------------------------------------------

/// Copies the next piece of this rank's input to its cells (its buffers in shared memory). `first` is the number of the
/// phase's first chunk. No rank needs the cells that were filled before this phase, or the cells of pieces with numbers
/// below `needed`. The function may overwrite these cells.
bool AdasumPasses::stage_next(std::uint64_t first, std::uint64_t needed, std::uint64_t& work) {
    if (staged_ == pieces_ || set_.members == 1 || (!stays_ && staged_ >= needed + set_.arena->plan().cells_per_rank) ||
        !may_write_(first + staged_)) {
        return false;
    }
    stage(staged_, first + staged_, work);
    ++staged_;
    set_.publish(set_.mine().staged, set_.chunks + first + staged_);
    return true;
}

/// Copies those parts of this rank's input that other ranks process. Each part goes to its place in this rank's cell
/// (its buffer in shared memory).
void AdasumPasses::stage(std::uint64_t index, std::uint64_t number, std::uint64_t& work) {
    const Range range = piece(index);
    for (std::uint32_t owner = 0; owner < owners_; ++owner) {
        if (owner == set_.rank) {
            continue;
        }
        std::byte* const to = place(set_.rank, owner, number);
        staged_maps_[owner].for_each_piece(
            range, [&](const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
                const Location& mine = location(part.segment, set_.rank);
                if (!mine.absent && mine.input == nullptr) {
                    ops::copy(to + (at - range.begin), batch_.segments[part.segment].input + offset, bytes);
                    work += bytes;
                }
            });
    }
}

/// Sets sources_ to the addresses of all members' elements, for a piece that this rank owns. For a member that has
/// called join(), the source is null.
void AdasumPasses::collect_sources(const PartMap::Part& part, std::uint64_t offset, std::uint64_t in_place,
                                   std::uint64_t number) {
    sources_.clear();
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        const Location& of = location(part.segment, member);
        sources_.push_back(of.absent             ? nullptr
                           : member == set_.rank ? batch_.segments[part.segment].input + offset
                           : of.input != nullptr ? of.input + offset
                                                 : place(member, set_.rank, number) + in_place);
    }
}

// ---- measure --------------------------------------------------------------------------------------------------------

bool AdasumPasses::measure(std::uint64_t& work) {
    if (measured_ == pieces_) {
        return false;
    }
    if (set_.members > 1 &&
        (measured_ == staged_ || !set_.all_reached(&Progress::staged, set_.chunks + measured_ + 1))) {
        return false;
    }
    if (is_owner()) {
        measure_piece(measured_, work);
    }
    ++measured_;
    if (set_.members > 1 && !stays_) {
        set_.publish(set_.mine().fetched, set_.chunks + measured_);
    }
    return true;
}

void AdasumPasses::measure_piece(std::uint64_t index, std::uint64_t& work) {
    const Range range = piece(index);
    staged_maps_[set_.rank].for_each_piece(
        range, [&](const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
            collect_sources(part, offset, at - range.begin, index);
            measure_part(part, offset, bytes);
            work += bytes * set_.members;
        });
}

// ---- numbers --------------------------------------------------------------------------------------------------------

bool AdasumPasses::sum_numbers() {
    const bool acted = !numbers_sum_.is_done() && numbers_sum_.act(may_write_);
    if (!numbers_sum_.is_done()) {
        return acted;
    }
    begin_combining();
    return true;
}

void AdasumPasses::begin_combining() {
    phase_ = Phase::combine;
    staged_ = stays_ ? pieces_ : 0;
    in_place_at_ = 0;
    in_place_is_done_ = !has_in_place_;
    const std::size_t pairs = ops::pairs_of(set_.members);
    for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
        const Segment& segment = batch_.segments[i];
        ops::adasum_weights(std::span(dots_).subspan(i * pairs, pairs), segment.prescale * segment.postscale,
                            std::span(weights_).subspan(i * set_.members, set_.members));
    }
}

// ---- combine --------------------------------------------------------------------------------------------------------

bool AdasumPasses::combine(std::uint64_t& work) {
    const std::uint64_t number = first_combined() + combined_;
    if (combined_ == pieces_ ||
        (set_.members > 1 &&
         (combined_ == staged_ || !set_.all_reached(&Progress::staged, set_.chunks + number + 1)))) {
        return false;
    }
    if (is_owner()) {
        combine_piece(combined_, number, work);
    }
    ++combined_;
    if (to_outputs_) {
        set_.publish(set_.mine().reduced, set_.chunks + number + 1);
        return true;
    }
    const bool is_last = combined_ == pieces_;
    if (set_.members > 1 && (!stays_ || is_last)) {
        set_.publish(set_.mine().fetched, set_.chunks + (is_last ? staged_chunks() : number + 1));
    }
    return true;
}

/// Writes the result over each member's input, in that member's buffer in shared memory. Each cache line then moves
/// only between the core that copied the input and the core that combines it.
void AdasumPasses::combine_piece(std::uint64_t index, std::uint64_t number, std::uint64_t& work) {
    const Range range = piece(index);
    staged_maps_[set_.rank].for_each_piece(range, [&](const PartMap::Part& part, std::uint64_t offset,
                                                      std::uint64_t bytes, std::uint64_t at) {
        const Segment& segment = batch_.segments[part.segment];
        collect_sources(part, offset, at - range.begin, number);
        destinations_.clear();
        for (std::uint32_t member = 0; to_outputs_ && member < set_.members; ++member) {
            const Location& of = location(part.segment, member);
            if (!of.absent) {
                destinations_.push_back(member == set_.rank    ? segment.output + offset
                                        : of.output != nullptr ? of.output + offset
                                                               : place(member, set_.rank, number) + (at - range.begin));
            }
        }
        combine_part(part, offset, bytes);
        work += bytes * (set_.members + destinations_.size());
    });
}

bool AdasumPasses::fetch(std::uint64_t& work) {
    const std::uint64_t number = first_combined() + fetched_;
    if (!to_outputs_ || fetched_ == combined_ || !set_.all_reached(&Progress::reduced, set_.chunks + number + 1)) {
        return false;
    }
    fetch_piece(fetched_, number, work);
    ++fetched_;
    const bool is_last = fetched_ == pieces_;
    if (!stays_ || is_last) {
        set_.publish(set_.mine().fetched, set_.chunks + (is_last ? staged_chunks() : number + 1));
    }
    return true;
}

void AdasumPasses::fetch_piece(std::uint64_t index, std::uint64_t number, std::uint64_t& work) {
    const Range range = piece(index);
    for (std::uint32_t owner = 0; owner < owners_; ++owner) {
        if (owner == set_.rank) {
            continue;
        }
        const std::byte* const from = place(set_.rank, owner, number);
        staged_maps_[owner].for_each_piece(
            range, [&](const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
                const Location& mine = location(part.segment, set_.rank);
                if (!mine.absent && mine.output == nullptr) {
                    ops::copy(batch_.segments[part.segment].output + offset, from + (at - range.begin), bytes);
                    work += bytes;
                }
            });
    }
}

}  // namespace rueda::collectives
