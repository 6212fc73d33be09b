// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/hierarchical/hosts.hpp"
#include "collectives/hierarchical/messages.hpp"
#include "collectives/host/tasks/host_set.hpp"

namespace rueda::collectives {

/// The state that the tasks of a process set on several hosts share: the state that tasks of one host share, the hosts
/// of all ranks, and the messages.
///
/// A rank's cells are one piece of memory, and each kind of task divides this memory in its own way. So when the kind
/// changes, the next batch writes to its cells only after every rank of the host has ended all earlier batches.
/// Consecutive batches of one kind form a run. Within a run, the counters of pieces show which part of the cells is
/// free.
///
/// Threads: the thread that drives progress.
struct HierarchicalSet : HostSet {
    enum class CellUse : std::uint8_t { none, allreduce, streams, by_pairs, adasum };

    HierarchicalSet(std::shared_ptr<Arena> a, const LocalGroup& group, Transport& transport,
                    const HierarchicalOptions& o)
        : HostSet(std::move(a)), hosts(group), messages(transport), options(o) {}

    Hosts hosts;
    Messages messages;
    HierarchicalOptions options;
    std::uint64_t batches = 0;  ///< how many batches this rank has ended
    /// How many pieces went through the cells before this run of batches began; the same on all ranks of the host.
    std::uint64_t run_begin = 0;
    std::uint64_t batches_before_run = 0;
    CellUse use = CellUse::none;

    /// Begins a batch. `chunks` counts the pieces of all earlier batches. A batch by pairs or of adasum always begins a
    /// new run.
    void begin_batch(CellUse next) {
        if (use != next || next == CellUse::by_pairs || next == CellUse::adasum) {
            use = next;
            run_begin = chunks;
            batches_before_run = batches;
        }
    }
    /// Whether this run may write to the cells. Pairs with end_batch() on the other ranks.
    [[nodiscard]] bool run_may_begin() const { return all_reached(&Progress::ended, batches_before_run); }
    /// Ends a batch. `pieces` is the number of its pieces that went through the cells.
    void end_batch(std::uint64_t pieces) {
        chunks += pieces;
        ++batches;
        publish(mine().ended, batches);
    }
    /// The amount of work in one step, in bytes. It is about as large as a chunk within one host, so that the engine
    /// often checks for an abort and for other waiting tasks.
    static constexpr std::uint64_t kStepBytes = 64 * 1024;
    /// Runs one step of a task. It calls act(), which adds the bytes that it moves to `work` and returns whether it
    /// found anything to do. It repeats this until `work` reaches kStepBytes or act() finds nothing to do, and then
    /// asks whether the task has ended. Each action counts as at least one cache line of work, so a step ends even if
    /// its actions move no bytes.
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
    /// The cells of a rank, as one contiguous piece of memory.
    [[nodiscard]] std::byte* cells_of(std::uint32_t member) const { return arena->cell(member, 0); }
    [[nodiscard]] std::uint64_t bytes_of_cells() const {
        return arena->plan().cell_bytes * arena->plan().cells_per_rank;
    }
};

}  // namespace rueda::collectives
