// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/config.hpp"
#include "base/system/logging.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/host/arena/resident_heap.hpp"
#include "collectives/local_group.hpp"
#include "core/engine/engine.hpp"
#include "core/pending/callback_thread.hpp"
#include "core/process_set/process_set.hpp"
#include "core/process_sets/process_sets.hpp"
#include "core/setup/first_sets.hpp"
#include "core/setup/set_up_group.hpp"

namespace rueda::core {

/// One rank of a job, from init to shutdown. It is an object, so one test process can hold several, as threads.
///
/// Threads: any, unless a function says otherwise. The object outlives its handles and slots.
class Runtime {
public:
    /// Collective: meets the other ranks, sets up the arena, starts the background thread. `launcher` may be null; it
    /// outlives this object, and its notifications must be about this job. The ranks agree on the process sets that are
    /// to be made first; the caller then makes them. `addresses` may be null; it outlives this object, and keeps what
    /// jobs of this process leave to the next job.
    [[nodiscard]] static Result<std::unique_ptr<Runtime>> create(
        const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane,
        LauncherLine* launcher = nullptr, const FirstSets& first_sets = {},
        collectives::AddressReserve* addresses = nullptr);
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    [[nodiscard]] const collectives::LocalGroup& group() const { return group_; }
    [[nodiscard]] const base::Logger& logger() const { return logger_; }
    /// Whether an MPI communicator has the ranks of this job in their order: see ControlPlane::is_of_same_ranks(). Call
    /// it from one thread at a time, before a shutdown.
    [[nodiscard]] Result<bool> is_of_same_ranks(std::span<const std::byte> communicator) {
        return control_plane_->is_of_same_ranks(communicator);
    }
    [[nodiscard]] base::ControlBlock& control() const { return arena_->control(); }

    [[nodiscard]] const std::shared_ptr<collectives::Arena>& arena() const { return arena_; }
    /// Whether requests should say where their calls stand.
    [[nodiscard]] bool wants_call_sites() const { return config_.call_sites; }
    /// Whether RUEDA_VERIFY is set on rank 0 of the job.
    [[nodiscard]] bool verifies() const { return config_.verify != 0; }

    [[nodiscard]] ProcessSet& world() { return *world_; }
    [[nodiscard]] const std::shared_ptr<ProcessSet>& shared_world() const { return world_; }
    [[nodiscard]] ProcessSets& process_sets() { return process_sets_; }
    [[nodiscard]] CallbackThread& callbacks() { return callbacks_; }

    /// Starts an operation of a set of this Runtime. `completion` must live until it is done. An empty `name` means an
    /// unnamed operation.
    Status start(ProcessSet& set, std::string_view name, const Request& request, Completion& completion);
    Status start(ProcessSet& set, TensorEntry& entry, const Request& request, Completion& completion);
    /// See ProcessSet::submit_group.
    Status start_group(ProcessSet& set, std::string_view group, std::span<const std::string> names,
                       std::span<const Request> requests, Completion& completion);
    /// If `entry` is null, the operation is started by `name`, which must not be empty. See
    /// ProcessSet::submit_allreduce.
    Status start_allreduce(ProcessSet& set, TensorEntry* entry, std::string_view name, const rueda_tensor& in,
                           const rueda_tensor& out, const rueda_options& options, Completion& completion);
    Status run_allreduce(ProcessSet& set, TensorEntry* entry, std::string_view name, const rueda_tensor& in,
                         const rueda_tensor& out, const rueda_options& options, Completion& completion);
    /// Starts an operation and waits for it.
    Status run(ProcessSet& set, std::string_view name, const Request& request, Completion& completion);
    Status run(ProcessSet& set, TensorEntry& entry, const Request& request, Completion& completion);
    Status wait(const Completion& completion, double timeout_seconds) {
        return engine_.wait(completion, timeout_seconds);
    }
    /// Describes what the operation of `completion` waits for; "" if it has ended or nothing is known.
    [[nodiscard]] std::string describe_wait(const Completion& completion) const {
        const WaitReport report = completion.done() ? WaitReport() : engine_.account_of(completion);
        return completion.done() ? "" : format_wait(report);
    }
    /// Starts a send or a receive, which was already checked, in a set of this Runtime.
    Status start(MessageRequest request, Completion& completion) {
        return engine_.start(std::move(request), completion);
    }
    Status run(MessageRequest request, Completion& completion) { return engine_.run(std::move(request), completion); }
    /// Joins in the world and in all sets of which this rank is a member. `completion` ends when all ranks of these
    /// sets have joined (ProcessSet::announce_join).
    Status start_join(Completion& completion, bool counted, const char* source_file = nullptr,
                      std::int32_t source_line = 0);
    /// Whether it is done. If no other thread drives progress, this takes one turn before.
    [[nodiscard]] bool poll(const Completion& completion);

    Result<void*> allocate(std::uint64_t bytes) { return heap_.allocate(bytes); }
    /// Returns false if the memory does not belong to this Runtime.
    [[nodiscard]] bool owns(const void* memory) const { return heap_.owns(memory); }
    /// The size of a block that allocate() gave out; 0 for any other address.
    [[nodiscard]] std::uint64_t block_bytes(const void* memory) const { return heap_.block_bytes(memory); }
    Status deallocate(void* memory) { return heap_.deallocate(memory); }

    void begin_busy(std::string_view what);
    Status end_busy();
    /// Sets what stall reports say about this rank. Any thread.
    void begin_step(std::int64_t step);

    /// Leaves the job: waits until all ranks do, and then for the callbacks. May be repeated; one thread does the work,
    /// and others wait for it. A failure is the reason why the job was aborted before all ranks had left it; this rank
    /// has left nevertheless. Only the call that does the work returns the failure.
    Status shutdown() { return shutdown_within(-1); }
    /// The same, but waits for other ranks only for this long (negative: without a limit). Timeout means that some
    /// ranks have not come. Then this rank has begun to leave: it starts no more operations, and serves the others. A
    /// later call continues the wait.
    Status shutdown_within(double timeout_seconds);
    [[nodiscard]] bool aborted() const { return engine_.aborted(); }
    /// Whether shutdown_within() has begun and has not completed. Relaxed: read after the lock that the shutdown held.
    [[nodiscard]] bool is_leaving() const {
        return arena_->control().ranks[arena_->rank()].state.load(std::memory_order_relaxed) ==
               static_cast<std::uint32_t>(base::RankState::shutting_down);
    }
    /// Ends the job on all ranks. Any thread; does not wait.
    void abort(std::string_view reason);
    /// For the exit of a process that fails because another rank of this host failed. It waits, for two seconds at
    /// most, until the process of that rank has ended, and a moment longer. torchrun, torch.multiprocessing.spawn and
    /// mpirun report what ended first in a job.
    void let_the_cause_end_first() const;
    /// Sets the text that the other ranks will read if this process ends without a shutdown.
    void set_end_reason(std::string_view text);
    /// Whether this is the process that called create(); a forked child is not.
    [[nodiscard]] int pid() const { return pid_; }

private:
    [[nodiscard]] static Result<std::unique_ptr<Runtime>> meet(const base::Config& config,
                                                               std::unique_ptr<collectives::ControlPlane> control_plane,
                                                               LauncherLine* launcher, const FirstSets& first_sets,
                                                               collectives::AddressReserve* addresses);
    void abandon();
    Status announce_shutdown(std::optional<std::chrono::steady_clock::time_point> deadline);
    Status leave_job();
    void say_if_bound_to_one_core() const;
    void publish_busy();

    struct BusyScope {
        std::string what;
        std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC
    };

    Runtime(const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane, RankGroup ranks,
            double cores, LauncherLine* launcher, std::int32_t first_set_id);

    base::Config config_;
    std::unique_ptr<collectives::ControlPlane> control_plane_;
    collectives::LocalGroup group_;
    base::Logger logger_;
    std::shared_ptr<collectives::Arena> arena_;
    collectives::ResidentHeap heap_;
    std::atomic<std::uint32_t> pending_{0};  // see ProcessSet
    std::shared_ptr<ProcessSet> world_;
    CallbackThread callbacks_;  // declared before the messenger and the engine, because both hand callbacks over to it
    Messenger messenger_;
    Engine engine_;
    ProcessSets process_sets_;
    int pid_;

    std::mutex busy_mutex_;
    std::vector<BusyScope> busy_;
    std::mutex shutdown_mutex_;
    bool messages_ended_ = false;  // under shutdown_mutex_
    bool shut_down_ = false;       // likewise
};

}  // namespace rueda::core
