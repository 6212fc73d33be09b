// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/hierarchical/hosts.hpp"
#include "collectives/hierarchical/messages.hpp"
#include "collectives/host/host_set.hpp"

namespace rueda::collectives {

/// What the tasks of a set on several hosts share: what those of one host do, where everybody runs, and the messages.
///
/// The tasks lay out a rank's cells in different ways, as one piece of memory. So the first batch of another kind than
/// the one before writes to its cells only when every rank of the host has ended the ones before; within a run of one
/// kind, the counters of pieces say which part of the cells is free.
///
/// Threads: whoever drives the engine.
struct HierarchicalSet : HostSet {
    enum class CellUse : std::uint8_t { none, allreduce, streams, by_pairs, adasum };

    HierarchicalSet(std::shared_ptr<Arena> a, const NumaNodes& n, const LocalGroup& group, Transport& transport,
                    const HierarchicalOptions& o)
        : HostSet(std::move(a), n), hosts(group), messages(transport), options(o) {}

    Hosts hosts;
    Messages messages;
    HierarchicalOptions options;
    std::uint64_t batches = 0;  ///< ended by me
    /// Pieces that went through the cells in the run of batches before this one; the same on all ranks of the host.
    std::uint64_t run_begin = 0;
    std::uint64_t batches_before_run = 0;
    CellUse use = CellUse::none;

    /// A batch begins. `chunks` counts the pieces of all batches before. By pairs, and by adasum, every batch is a run.
    void begin_batch(CellUse next) {
        if (use != next || next == CellUse::by_pairs || next == CellUse::adasum) {
            use = next;
            run_begin = chunks;
            batches_before_run = batches;
        }
    }
    /// May cells be written at all? Partner: end_batch() of the others.
    [[nodiscard]] bool run_may_begin() const { return all_reached(&Progress::ended, batches_before_run); }
    /// `pieces` of it went through the cells.
    void end_batch(std::uint64_t pieces) {
        chunks += pieces;
        ++batches;
        publish(mine().ended, batches);
    }
    /// Work of one step: of the order of a chunk of one host, so that abort and other waiters are looked at.
    static constexpr std::uint64_t kStepBytes = 64 * 1024;
    /// One step of a task: calls act(), which adds to `work` what it has moved and says whether it found anything to
    /// do, until that is a step's work; then asks whether the task has come to its end. To find something to do counts
    /// as moving a line: who moves nothing of what others say that they have looks up as often.
    template <class Act, class Ended>
    [[nodiscard]] StepResult step(std::uint64_t& work, Act&& act, Ended&& ended) {
        work = 0;
        bool acted = false;
        while (work < kStepBytes && act()) {
            work += base::kCacheLine;
            acted = true;
        }
        if (!messages.failure().is_ok()) {
            return StepResult::waiting;
        }
        if (ended()) {
            return StepResult::done;
        }
        if (acted) {
            return StepResult::advanced;
        }
        return messages.under_way() ? StepResult::polling : StepResult::waiting;
    }
    /// A rank's cells are one piece of memory.
    [[nodiscard]] std::byte* cells_of(std::uint32_t member) const { return arena->cell(member, 0); }
    [[nodiscard]] std::uint64_t bytes_of_cells() const {
        return arena->plan().cell_bytes * arena->plan().cells_per_rank;
    }
};

}  // namespace rueda::collectives
