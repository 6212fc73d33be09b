// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/shared_memory/control_block.hpp"
#include "collectives/communicator.hpp"
#include "collectives/host/arena/arena.hpp"

namespace rueda::collectives {

/// Whether the announcements of all members, except those that called join(), contained the members' inputs.
[[nodiscard]] inline bool all_travelled(std::span<const Location> locations) {
    return std::all_of(locations.begin(), locations.end(),
                       [](const Location& l) { return l.absent || l.payload != nullptr; });
}

/// The state that the tasks of one process set share: the host's shared memory (arena), this rank's position in it, and
/// counts over all batches. Threads: only the thread that steps this rank's tasks ("drives progress").
struct HostSet {
    explicit HostSet(std::shared_ptr<Arena> a)
        : arena(std::move(a)), rank(arena->rank()), members(arena->plan().members) {}

    std::shared_ptr<Arena> arena;
    std::uint32_t rank;
    std::uint32_t members;
    std::uint64_t chunks = 0;  ///< number of chunks that went through the buffers in shared memory in earlier batches;
                               ///< the same on all members
    std::uint64_t resident_batches = 0;  ///< number of earlier batches that used memory of other ranks directly; the
                                         ///< same on all members
    /// No rank needs the chunks with lower numbers than this in this rank's cells (buffers in shared memory) any more.
    /// The number may be too low, but it is never too high.
    std::uint64_t free_chunks = 0;

    /// Combines `sources`, one for each member, into `destinations`, in rank order. The sources of members that called
    /// join() are left out. For Adasum, the input of such a member counts as zeros.
    void reduce(const Segment& segment, std::span<const Location> locations, std::span<const std::byte* const> sources,
                std::span<std::byte* const> destinations, std::uint64_t count) const {
        if (destinations.empty()) {
            return;  // This rank has called join(), so it writes no result for other ranks.
        }
        if (segment.absent == 0) [[likely]] {
            ops::reduce(segment.reduction(members), sources, destinations, count);
            return;
        }
        std::array<const std::byte*, base::kMaxLocalRanks> present{};
        if (segment.reduce_op == ReduceOp::adasum) {
            for (std::uint32_t member = 0; member < members; ++member) {
                present[member] = locations[member].absent ? nullptr : sources[member];
            }
            ops::reduce(segment.reduction(members), {present.data(), members}, destinations, count);
            return;
        }
        std::size_t found = 0;
        for (std::uint32_t member = 0; member < members; ++member) {
            if (!locations[member].absent) {
                present[found++] = sources[member];
            }
        }
        ops::reduce(segment.reduction(members), {present.data(), found}, destinations, count);
    }

    [[nodiscard]] Progress& mine() const { return arena->progress(rank); }
    [[nodiscard]] Progress& of(std::uint32_t member) const { return arena->progress(member); }

    /// Stores a progress counter of this rank, and wakes ranks that sleep. reached() on the other ranks loads the
    /// counter. The store is seq_cst because of ranks that go to sleep. A rank that goes to sleep first stores this in
    /// its attention word, and then reads the counters. So it either reads the new value, or wake_sleepers() finds in
    /// the attention word that it sleeps.
    void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) const {
        counter.store(value, std::memory_order_seq_cst);
        wake_sleepers();
    }
    void wake_sleepers() const {
        for (std::uint32_t member = 0; member < members; ++member) {
            auto& attention = arena->blocks().of(member).attention;
            if (member == rank) {
                continue;
            }
            if (const base::AttentionState state = attention.state(); state != base::AttentionState::awake) {
                attention.ring(state);
            }
        }
    }

    /// Whether `counter` has reached `value` on all members except this rank.
    [[nodiscard]] bool all_reached(std::atomic<std::uint64_t> Progress::*counter, std::uint64_t value) const {
        for (std::uint32_t member = 0; member < members; ++member) {
            if (member != rank && !reached(member, counter, value)) {
                return false;
            }
        }
        return true;
    }
    /// Whether this rank may write to its cell (its buffer in shared memory) for chunk `number`. The cell still holds
    /// an earlier chunk, because each rank uses its cells in turn. All ranks must be done with that chunk.
    [[nodiscard]] bool cell_is_free(std::uint64_t number) const {
        return number < free_chunks + arena->plan().cells_per_rank || exchanged_cell_is_free(number);
    }

    /// The cell (buffer in shared memory) to which `member` copies chunk `number` of an exchange. In an exchange, the
    /// other ranks only read the data. If there are two members, they swap their cells in every round. A rank then
    /// writes to cache lines that its core still holds because it has just read them. Each line therefore crosses
    /// between the cores only once.
    [[nodiscard]] std::byte* exchanged_cell(std::uint32_t member, std::uint64_t number) const {
        const std::uint64_t turn = members == 2 ? number / arena->plan().cells_per_rank % 2 : 0;
        return arena->cell(static_cast<std::uint32_t>(member ^ turn), number);
    }
    /// Like cell_is_free(), but for exchanged_cell(). This function does not use `free_chunks`, which counts only
    /// chunks in this rank's own cells.
    [[nodiscard]] bool exchanged_cell_is_free(std::uint64_t number) const {
        const std::uint32_t cells = arena->plan().cells_per_rank;
        return number < cells || all_reached(&Progress::fetched, number + 1 - cells);
    }
    [[nodiscard]] bool reached(std::uint32_t member, std::atomic<std::uint64_t> Progress::*counter,
                               std::uint64_t value) const {
        return (of(member).*counter).load(std::memory_order_seq_cst) >= value;
    }
};

}  // namespace rueda::collectives
