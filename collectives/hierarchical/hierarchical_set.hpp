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

/// The state that all tasks of a process set on several hosts share. It extends HostSet (the state for one host) by the
/// hosts of all ranks, and by the messages between hosts.
///
/// A rank's *cells* are its buffers in the host's shared memory. Each kind of task divides this memory in its own way.
/// Consecutive batches of one kind form a *run*. Within a run, counters of pieces show which part of the cells is free.
/// When the kind changes, a new run begins, and its first batch writes to the cells only after every rank of the host
/// has ended all earlier batches.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
struct HierarchicalSet : HostSet {
    enum class CellUse : std::uint8_t { none, allreduce, streams, by_pairs, adasum };

    HierarchicalSet(std::shared_ptr<Arena> a, const LocalGroup& group, Transport& transport,
                    const HierarchicalOptions& o)
        : HostSet(std::move(a)), hosts(group), messages(transport), options(o) {}

    Hosts hosts;
    Messages messages;
    HierarchicalOptions options;
    std::uint64_t batches = 0;  ///< how many batches this rank has ended
    /// How many pieces went through the cells before this run began. The number is the same on all ranks of the host.
    std::uint64_t run_begin = 0;
    std::uint64_t batches_before_run = 0;
    CellUse use = CellUse::none;

    /// Begins a batch. If this batch and the batch before it divide the cells (buffers in shared memory) differently,
    /// this batch begins a new run. A batch of CellUse::by_pairs or adasum always begins a new run.
    void begin_batch(CellUse next) {
        if (use != next || next == CellUse::by_pairs || next == CellUse::adasum) {
            use = next;
            run_begin = chunks;
            batches_before_run = batches;
        }
    }
    /// Whether this run may write to the cells (buffers in shared memory). True when all ranks have ended the batches
    /// of earlier runs, and so no longer read data of these runs. This function acquires what end_batch() publishes on
    /// the other ranks.
    [[nodiscard]] bool run_may_begin() const { return all_reached(&Progress::ended, batches_before_run); }
    /// Ends a batch, in which `pieces` pieces of data went through the cells (buffers in shared memory). Publishes the
    /// end of the batch in a counter, which run_may_begin() on the other ranks loads.
    void end_batch(std::uint64_t pieces) {
        chunks += pieces;
        ++batches;
        publish(mine().ended, batches);
    }
    /// A step ends when it has moved this number of bytes, which is about the size of a chunk within one host. Steps
    /// must be short, because the engine checks for an abort and steps other tasks only between two steps.
    static constexpr std::uint64_t kStepBytes = 64 * 1024;
    /// Runs one step of a task. It calls act() repeatedly until `work` reaches kStepBytes or act() finds nothing to do.
    /// Then it calls ended(), which says whether the task is done. act() adds the bytes that it moved to `work`, and
    /// returns whether it did something. Each action counts as at least one cache line of work, so that a step ends
    /// even if no action moves bytes.
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
    /// The cells (buffers in shared memory) of a rank, as one contiguous piece of memory.
    [[nodiscard]] std::byte* cells_of(std::uint32_t member) const { return arena->cell(member, 0); }
    [[nodiscard]] std::uint64_t bytes_of_cells() const {
        return arena->plan().cell_bytes * arena->plan().cells_per_rank;
    }
};

}  // namespace rueda::collectives
