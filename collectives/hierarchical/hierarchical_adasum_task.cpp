// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/hierarchical_adasum_task.hpp"

#include <algorithm>
#include <cstring>

namespace rueda::collectives {
namespace {

/// How many bytes of one host's partial result are combined, or used for the dot products, at one time. On a host with
/// one rank, the same number of bytes is copied to the output at one time.
constexpr std::uint64_t kPieceBytes = 32 * 1024;

constexpr std::uint64_t up_to_lines(std::uint64_t bytes) {
    return (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
}

}  // namespace

HierarchicalAdasumTask::HierarchicalAdasumTask(HierarchicalSet& set)
    : set_(set),
      passes_(set, set.hosts.lanes(), [this](std::uint64_t number) { return may_write(number); }),
      exchange_(set),
      numbers_sum_(set),
      maps_(set.hosts.lanes()),
      piece_bytes_(set.members > 1 ? set.arena->plan().cell_bytes : kPieceBytes) {}

/// Whether this rank may write piece `number` to its cells (its part of the shared memory). The first pieces of a batch
/// overwrite data of an earlier batch, so they wait until all ranks of the host have ended that batch.
bool HierarchicalAdasumTask::may_write(std::uint64_t number) const {
    return number < set_.arena->plan().cells_per_rank ? set_.run_may_begin()
                                                      : set_.exchanged_cell_is_free(set_.chunks + number);
}

void HierarchicalAdasumTask::begin(const Batch& batch) {
    batch_ = batch;
    set_.begin_batch(HierarchicalSet::CellUse::adasum);
    AdasumPasses::cut(batch, set_.hosts.count() * set_.hosts.lanes(), maps_);
    std::uint64_t longest = 0;
    for (const PartMap& map : maps_) {
        longest = std::max(longest, map.bytes());
    }
    pieces_ = (longest + piece_bytes_ - 1) / piece_bytes_;
    published_ = taken_ = position_ = 0;
    dots_.assign(batch.segments.size() * ops::pairs_of(set_.hosts.count()), 0.0);
    if (is_lane()) {
        find_parts();
        make_room();
    }
    passes_.begin_into(batch, maps_, memory_);
    phase_ = Phase::partials;
}

/// Cuts the tensors into the same parts as AdasumPasses::cut().
void HierarchicalAdasumTask::find_parts() {
    const std::uint32_t hosts = set_.hosts.count();
    const std::uint32_t parts = hosts * set_.hosts.lanes();
    host_begins_.assign(1, 0);
    for (std::uint32_t host = 0; host < hosts; ++host) {
        const std::uint32_t part = set_.rank * hosts + host;
        std::uint64_t end = host_begins_.back();
        for (const Segment& segment : batch_.segments) {
            end += up_to_lines(ops::part_begin(segment.bytes(), part + 1, parts) -
                               ops::part_begin(segment.bytes(), part, parts));
        }
        host_begins_.push_back(end);
    }
}

/// Allocates memory for this rank's part of the tensors, for the partial results that other hosts send, and for the dot
/// products of all hosts. Only ranks that communicate for their host (lanes) need this memory.
void HierarchicalAdasumTask::make_room() {
    const std::uint32_t hosts = set_.hosts.count();
    const std::uint64_t own = own_part().bytes();
    const std::uint64_t numbers = up_to_lines(dots_.size() * sizeof(double));
    const std::uint64_t needed =
        up_to_lines(std::max<std::uint64_t>(own_map().bytes(), 1)) + (hosts - 1) * own + hosts * numbers;
    if (needed > memory_bytes_) {
        memory_ = set_.messages.allocate(needed);
        memory_bytes_ = needed;
    }
    std::byte* next = memory_ + up_to_lines(own_map().bytes());
    received_.assign(hosts, nullptr);
    numbers_.assign(hosts, nullptr);
    for (std::uint32_t host = 0; host < hosts; ++host) {
        if (host == set_.hosts.my_host()) {
            received_[host] = memory_ + own_part().begin;
        } else {
            received_[host] = next;
            next += own;
        }
    }
    for (std::uint32_t host = 0; host < hosts; ++host) {
        numbers_[host] = next;
        next += numbers;
    }
}

// ---- steps ----------------------------------------------------------------------------------------------------------

StepResult HierarchicalAdasumTask::step() {
    return set_.step(
        work_, [this] { return act(); }, [this] { return end(); });
}

bool HierarchicalAdasumTask::end() {
    if (phase_ != Phase::deliver || taken_ < pieces_) {
        return false;
    }
    set_.end_batch(set_.members > 1 ? passes_.chunks() + numbers_sum_.chunks() + pieces_ : 0);
    return true;
}

/// Does one action, or moves on to the next phase. Returns false if there was nothing to do.
bool HierarchicalAdasumTask::act() {
    switch (phase_) {
        case Phase::partials:
            if (!passes_.is_done()) {
                return passes_.act(work_);
            }
            if (is_lane()) {
                spread();
                phase_ = Phase::spread;
            } else {
                numbers_sum_.begin(dots_, set_.hosts.lanes(), passes_.chunks(), /*keeps_cells=*/false);
                phase_ = Phase::sum;
            }
            return true;
        case Phase::spread:
            if (exchange_.act()) {
                return true;
            }
            if (!exchange_.is_done()) {
                return false;
            }
            phase_ = Phase::measure;
            return true;
        case Phase::measure:
            if (!measure()) {
                tell();
                phase_ = Phase::tell;
            }
            return true;
        case Phase::tell:
            if (exchange_.act()) {
                return true;
            }
            if (!exchange_.is_done()) {
                return false;
            }
            add_numbers();
            numbers_sum_.begin(dots_, set_.hosts.lanes(), passes_.chunks(), /*keeps_cells=*/false);
            phase_ = Phase::sum;
            return true;
        case Phase::sum:
            if (!numbers_sum_.is_done()) {
                return numbers_sum_.act([this](std::uint64_t number) { return may_write(number); });
            }
            find_weights();
            position_ = 0;
            phase_ = is_lane() ? Phase::combine : Phase::deliver;
            return true;
        case Phase::combine:
            if (!combine()) {
                collect();
                phase_ = Phase::collect;
            }
            return true;
        case Phase::collect:
            if (exchange_.act()) {
                return true;
            }
            if (!exchange_.is_done()) {
                return false;
            }
            phase_ = Phase::deliver;
            return true;
        case Phase::deliver:
            return deliver();
    }
    return false;
}

// ---- between hosts --------------------------------------------------------------------------------------------------

void HierarchicalAdasumTask::spread() {
    exchange_.begin();
    for (std::uint32_t distance = 1; distance < set_.hosts.count(); ++distance) {
        const std::uint32_t host = host_after(distance);
        const Range part = part_of(host);
        exchange_.add(peer(host), {memory_ + part.begin, part.bytes()}, {received_[host], own_part().bytes()});
    }
}

/// Calls f(part, offset in the tensor, bytes, offset in this rank's memory) for the next piece of this host's part.
/// Returns false if there is no further piece.
template <class F>
bool HierarchicalAdasumTask::next_of_own(F&& f) {
    const Range own = own_part();
    if (position_ == own.bytes()) {
        return false;
    }
    const std::uint64_t begin = own.begin + position_;
    const std::uint64_t end = std::min(begin + kPieceBytes, own.end);
    own_map().for_each_piece({begin, end}, f);
    position_ = end - own.begin;
    work_ += (end - begin) * set_.hosts.count();
    return true;
}

void HierarchicalAdasumTask::collect_sources(std::uint64_t at) {
    sources_.clear();
    for (std::byte* partial : received_) {
        sources_.push_back(partial + (at - own_part().begin));
    }
}

bool HierarchicalAdasumTask::measure() {
    const std::uint32_t hosts = set_.hosts.count();
    const std::size_t pairs = ops::pairs_of(hosts);
    return next_of_own([&](const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
        const DType dtype = batch_.segments[part.segment].dtype;
        if (offset == part.range.begin) {
            products_.begin(dtype, hosts);
        }
        collect_sources(at);
        products_.add(sources_, bytes / size_of(dtype));
        if (offset + bytes == part.range.end) {
            products_.end(std::span(dots_).subspan(part.segment * pairs, pairs));
        }
    });
}

void HierarchicalAdasumTask::tell() {
    const std::size_t bytes = dots_.size() * sizeof(double);
    std::byte* const mine = numbers_[set_.hosts.my_host()];
    std::memcpy(mine, dots_.data(), bytes);
    exchange_.begin();
    for (std::uint32_t distance = 1; distance < set_.hosts.count(); ++distance) {
        const std::uint32_t host = host_after(distance);
        exchange_.add(peer(host), {mine, bytes}, {numbers_[host], bytes});
    }
}

/// Adds the dot products in the order of the hosts. All hosts therefore get the same bits.
void HierarchicalAdasumTask::add_numbers() {
    std::memcpy(dots_.data(), numbers_[0], dots_.size() * sizeof(double));
    for (std::uint32_t host = 1; host < set_.hosts.count(); ++host) {
        for (std::size_t i = 0; i < dots_.size(); ++i) {
            double other = 0;
            std::memcpy(&other, numbers_[host] + i * sizeof(other), sizeof(other));
            dots_[i] += other;
        }
    }
}

/// The weights of Adasum are computed without prescale and postscale, because both were already applied to the hosts'
/// partial results.
void HierarchicalAdasumTask::find_weights() {
    const std::uint32_t hosts = set_.hosts.count();
    const std::size_t pairs = ops::pairs_of(hosts);
    weights_.resize(batch_.segments.size() * hosts);
    for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
        ops::adasum_weights(std::span(dots_).subspan(i * pairs, pairs), 1.0,
                            std::span(weights_).subspan(i * hosts, hosts));
    }
}

/// Writes the combined values over this host's partial result, which was sent before and is no longer needed.
bool HierarchicalAdasumTask::combine() {
    const std::uint32_t hosts = set_.hosts.count();
    return next_of_own([&](const PartMap::Part& part, std::uint64_t, std::uint64_t bytes, std::uint64_t at) {
        const DType dtype = batch_.segments[part.segment].dtype;
        collect_sources(at);
        std::byte* const result = memory_ + at;
        ops::weighted_sum(dtype, sources_, std::span(weights_).subspan(std::size_t{part.segment} * hosts, hosts),
                          {&result, 1}, bytes / size_of(dtype));
    });
}

void HierarchicalAdasumTask::collect() {
    exchange_.begin();
    const Range own = own_part();
    for (std::uint32_t distance = 1; distance < set_.hosts.count(); ++distance) {
        const std::uint32_t host = host_after(distance);
        const Range part = part_of(host);
        exchange_.add(peer(host), {memory_ + own.begin, own.bytes()}, {memory_ + part.begin, part.bytes()});
    }
}

// ---- to the outputs -------------------------------------------------------------------------------------------------

bool HierarchicalAdasumTask::deliver() { return (is_lane() && publish_piece()) || take_piece(); }

bool HierarchicalAdasumTask::publish_piece() {
    const std::uint64_t number = passes_.chunks() + numbers_sum_.chunks() + published_;
    if (published_ == pieces_ || (set_.members > 1 && !may_write(number))) {
        return false;
    }
    const Range range{published_ * piece_bytes_, std::min((published_ + 1) * piece_bytes_, own_map().bytes())};
    if (range.begin < range.end) {
        write_results(set_.rank, memory_ + range.begin, range);
        if (set_.members > 1) {
            ops::copy(set_.arena->cell(set_.rank, set_.chunks + number), memory_ + range.begin, range.bytes());
            work_ += range.bytes();
        }
    }
    ++published_;
    if (set_.members > 1) {
        set_.publish(set_.mine().staged, set_.chunks + number + 1);
    }
    return true;
}

bool HierarchicalAdasumTask::take_piece() {
    if (taken_ == pieces_ || (is_lane() && taken_ == published_)) {
        return false;
    }
    const std::uint64_t number = set_.chunks + passes_.chunks() + numbers_sum_.chunks() + taken_;
    for (std::uint32_t lane = 0; lane < set_.hosts.lanes(); ++lane) {
        if (lane != set_.rank && !set_.reached(lane, &Progress::staged, number + 1)) {
            return false;
        }
    }
    for (std::uint32_t lane = 0; lane < set_.hosts.lanes(); ++lane) {
        const Range range{taken_ * piece_bytes_, std::min((taken_ + 1) * piece_bytes_, maps_[lane].bytes())};
        if (lane != set_.rank && range.begin < range.end) {
            write_results(lane, set_.arena->cell(lane, number), range);
        }
    }
    ++taken_;
    if (set_.members > 1) {
        set_.publish(set_.mine().fetched, number + 1);
    }
    return true;
}

/// Writes results to this rank's outputs. `piece` points to the results for `range` of the part of `lane`.
void HierarchicalAdasumTask::write_results(std::uint32_t lane, const std::byte* piece, Range range) {
    maps_[lane].for_each_piece(
        range, [&](const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
            if (!batch_.locations_of(part.segment, set_.members)[set_.rank].absent) {
                ops::copy(batch_.segments[part.segment].output + offset, piece + (at - range.begin), bytes);
                work_ += bytes;
            }
        });
}

}  // namespace rueda::collectives
