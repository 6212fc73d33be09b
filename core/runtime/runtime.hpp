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

#include "base/recorder/recorder_writer.hpp"
#include "base/settings/config.hpp"
#include "base/system/logging.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/host/arena/resident_heap.hpp"
#include "collectives/local_group.hpp"
#include "core/engine/engine.hpp"
#include "core/metrics/plugin_interface.hpp"
#include "core/pending/callback_thread.hpp"
#include "core/process_set/process_set.hpp"
#include "core/process_sets/process_sets.hpp"
#include "core/setup/first_sets.hpp"
#include "core/setup/host_clock.hpp"
#include "core/setup/set_up_group.hpp"
#include "core/timeline/host_timeline.hpp"
#include "core/timeline/program_scopes.hpp"

namespace rueda::collectives {
class BulkTransport;
class LeaderTransport;
}  // namespace rueda::collectives

namespace rueda::core {

/// One rank of a job, from init to shutdown. All state of the rank is in this object, so a test process can hold
/// several ranks, as threads.
///
/// Threads: any, unless a function says otherwise. The object must outlive its handles and slots.
class Runtime {
public:
    /// Collective: finds the other ranks, sets up the arena, and starts the background thread.
    /// - `launcher` may be null; otherwise it must outlive this object, and its notifications must be about this job.
    /// - `first_sets`: the process sets that the ranks agree on here, and that the caller must create afterwards.
    /// - `addresses` may be null; otherwise it must outlive this object. `addresses` keeps address space for the next
    ///   jobs of this process.
    [[nodiscard]] static Result<std::unique_ptr<Runtime>> create(
        const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane,
        LauncherLine* launcher = nullptr, const FirstSets& first_sets = {},
        collectives::AddressReserve* addresses = nullptr);
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    [[nodiscard]] const collectives::LocalGroup& group() const { return group_; }
    [[nodiscard]] const base::Logger& logger() const { return logger_; }
    /// Whether the ranks of an MPI communicator are the ranks of this job, in the same order; see
    /// ControlPlane::is_of_same_ranks(). One thread at a time may call this, and only before the shutdown.
    [[nodiscard]] Result<bool> is_of_same_ranks(std::span<const std::byte> communicator) {
        return control_plane_->is_of_same_ranks(communicator);
    }
    [[nodiscard]] base::ControlBlock& control() const { return arena_->control(); }

    [[nodiscard]] const std::shared_ptr<collectives::Arena>& arena() const { return arena_; }
    /// The settings of this rank, after the ranks have agreed on those that must be equal.
    [[nodiscard]] const base::Config& config() const { return config_; }
    /// Whether requests must contain the source lines of their calls.
    [[nodiscard]] bool wants_call_sites() const { return config_.call_sites; }
    /// Whether RUEDA_VERIFY is set on rank 0 of the job.
    [[nodiscard]] bool verifies() const { return config_.verify != 0; }

    [[nodiscard]] ProcessSet& world() { return *world_; }
    [[nodiscard]] const std::shared_ptr<ProcessSet>& shared_world() const { return world_; }
    [[nodiscard]] ProcessSets& process_sets() { return process_sets_; }
    [[nodiscard]] CallbackThread& callbacks() { return callbacks_; }

    /// Starts an operation of one of this rank's sets; see ProcessSet::submit(). Waits for it for at most
    /// `wait_seconds` or `options.wait_seconds`; see Engine::start(). `completion` must exist until it is done.
    Status start(ProcessSet& set, TensorEntry* known, std::string_view name, const Request& request,
                 Completion& completion, double wait_seconds = 0);
    Status start(ProcessSet& set, TensorEntry* known, std::string_view name, const Arguments& arguments,
                 const rueda_options& options, Completion& completion);
    /// See ProcessSet::submit_group().
    Status start_group(ProcessSet& set, std::string_view group, std::span<const std::string> names,
                       std::span<const Request> requests, Completion& completion);
    /// Like start(), but waits for the operation.
    Status run(ProcessSet& set, TensorEntry* known, std::string_view name, const Request& request,
               Completion& completion);
    Status run(ProcessSet& set, TensorEntry* known, std::string_view name, const Arguments& arguments,
               const rueda_options& options, Completion& completion);
    Status wait(const Completion& completion, double timeout_seconds) {
        return engine_.wait(completion, timeout_seconds);
    }
    /// Puts an event into the caller's stream: when the device reaches the event, the tensors of an operation in `set`
    /// are ready. Returns what the operation needs to know about the device. The operation must be started before other
    /// work is put into the stream.
    [[nodiscard]] Result<std::shared_ptr<const DeviceUse>> use_device(ProcessSet& set,
                                                                      const rueda_device_stream& given);
    /// Puts such an event into the caller's stream for the tensor of a send or a receive. Stores in `request` what the
    /// message needs to know about the device. A message may use any device. Also allocates memory of the host for the
    /// message.
    [[nodiscard]] Status use_device(const rueda_device_stream& given, MessageRequest& request);
    /// Waits until all work of the operation has been given to the device. Then makes the later work in `stream` wait
    /// on the device for the operation's end. If the tensors are in the CPU's memory, waits for the operation's end
    /// instead.
    Status wait_on_stream(const Completion& completion, const rueda_device_stream& stream, double timeout_seconds);
    /// Describes what the operation of `completion` waits for; "" if it has ended or nothing is known.
    [[nodiscard]] std::string describe_wait(const Completion& completion) const {
        const WaitReport report = completion.done() ? WaitReport() : engine_.account_of(completion);
        return completion.done() ? "" : format_wait(report);
    }
    /// Starts a send or a receive. The caller must have checked the request.
    Status start(MessageRequest request, Completion& completion) {
        return engine_.start(std::move(request), completion);
    }
    Status run(MessageRequest request, Completion& completion) { return engine_.run(std::move(request), completion); }
    /// Joins in all sets that contain this rank. `completion` ends when all ranks of these sets have joined; see
    /// ProcessSet::announce_join().
    Status start_join(Completion& completion, bool counted, const char* source_file = nullptr,
                      std::int32_t source_line = 0);
    /// Whether `completion` is done. If no other thread drives progress, this function drives one turn first.
    [[nodiscard]] bool poll(const Completion& completion);

    Result<void*> allocate(std::uint64_t bytes);
    /// Whether `memory` was allocated by this Runtime.
    [[nodiscard]] bool owns(const void* memory) const { return heap_.owns(memory); }
    /// The size of a block that allocate() has returned; 0 for any other address.
    [[nodiscard]] std::uint64_t block_bytes(const void* memory) const { return heap_.block_bytes(memory); }
    Status deallocate(void* memory);
    /// Allocates memory of a device. opened_devices() frees it, also after the end of this object.
    Result<void*> allocate_on_device(std::int32_t device, std::uint64_t bytes);

    /// Installs the handler of the stack signal (RUEDA_STACK_SIGNAL), and lets other ranks request the stack of this
    /// process's main thread. Only for the one Runtime of the process that is in a job.
    void offer_stacks();

    /// Opens the endpoint for Prometheus if RUEDA_METRICS_PORT is set and this is the lowest rank of its host. Prints a
    /// warning on failure. Only for the one Runtime of the process that is in a job.
    void serve_metrics();
    /// The number of threads with which this rank should compute (host_cores.hpp).
    [[nodiscard]] int threads_per_rank() const { return threads_; }
    /// How long threads of the program were blocked in operations (Engine::blocked_ns()).
    [[nodiscard]] std::int64_t blocked_ns() const { return engine_.blocked_ns(); }
    /// The metrics of this rank, as JSON (core/metrics). Fails with NotInitialized if this rank has left the job.
    [[nodiscard]] Result<std::string> metrics();

    void begin_busy(std::string_view what);
    Status end_busy();
    /// Records the number of the training step, which stall reports show for this rank. Any thread.
    void begin_step(std::int64_t step);

    /// Starts or stops the timeline (HostTimeline). The timeline contains the operations that are announced after its
    /// start.
    Status start_timeline(const std::string& path, bool marks_cycles) {
        return timeline_.start(path, marks_cycles, TimelineRecording::From::now);
    }
    void stop_timeline() { timeline_.stop(); }
    /// Adds a scope of the program to the timeline, from `began_ns` (CLOCK_MONOTONIC) until now. Does nothing without a
    /// timeline.
    void add_timeline_scope(std::string_view name, std::int64_t began_ns) {
        if (timeline_.is_on()) {
            scopes_.add(name, began_ns);
        }
    }

    /// Leaves the job: waits until all ranks leave it, and then until the callbacks have run. Fails with the reason of
    /// the abort if the job was aborted before all ranks had left. Even after a failure, this rank has left the job.
    /// Several threads may call this function. One of them does the work and gets the failure; the others wait until it
    /// is done.
    Status shutdown() { return shutdown_within(-1); }
    /// Like shutdown(), but waits for other ranks only for this time. A negative time means no limit. Returns Timeout
    /// if some ranks have not called shutdown by then. After a Timeout, this rank starts no more operations, but still
    /// serves the other ranks. A later call continues the wait.
    Status shutdown_within(double timeout_seconds);
    /// After an abort, shutdown() does not release the job's memory; this function does. Call it after shutdown(), when
    /// all other ranks have left the job or are dead. Call it only in a job without MPI, because MPI may still write
    /// into the memory. UCX is not called any more after the shutdown. If a network card still writes to memory that it
    /// has registered, this does no harm: the kernel keeps these pages and uses them for nothing else. Does nothing if
    /// the job was not aborted.
    void release_after_abort();
    [[nodiscard]] bool aborted() const { return engine_.aborted(); }
    /// Whether shutdown_within() has begun and is not complete. The load is relaxed, because the caller reads the value
    /// after shutdown_within() has released its lock.
    [[nodiscard]] bool is_leaving() const {
        return arena_->control().ranks[arena_->rank()].state.load(std::memory_order_relaxed) ==
               static_cast<std::uint32_t>(base::RankState::shutting_down);
    }
    /// Ends the job on all ranks, without waiting. Any thread.
    void abort(std::string_view reason);
    /// Call this before this process exits. torchrun, torch.multiprocessing.spawn and mpirun report the process that
    /// ends first as the cause. So if another rank of this host has ended the job, this function waits until that
    /// rank's process has ended, for two seconds at most. After the end of that process, it waits another 0.3 s.
    void let_the_cause_end_first() const;
    /// Sets the text that other ranks report if this process ends without a shutdown.
    void set_end_reason(std::string_view text);
    /// The pid of the process that called create(); a forked child has another pid.
    [[nodiscard]] int pid() const { return pid_; }

private:
    [[nodiscard]] static Result<std::unique_ptr<Runtime>> set_up(
        const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane, LauncherLine* launcher,
        const FirstSets& first_sets, collectives::AddressReserve* addresses);
    [[nodiscard]] bool is_in_sets_besides(const ProcessSet& set) const;
    static void expect_launches(Completion& completion, std::span<const Request> requests);
    void abandon();
    Status announce_shutdown(std::optional<std::chrono::steady_clock::time_point> deadline);
    Status leave_job();
    void release_memory();
    void say_if_bound_to_one_core() const;
    void begin_timeline();
    void publish_busy();
    void note_resident_memory();

    struct BusyScope {
        std::string what;
        std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC
    };

    [[nodiscard]] Status start_threads();
    void ring();
    /// The transport between hosts; null if all ranks are on one host.
    [[nodiscard]] collectives::Transport* transport() const;

    Runtime(const base::Config& config, std::unique_ptr<collectives::ControlPlane> control_plane,
            std::unique_ptr<collectives::BulkTransport> bulk, std::unique_ptr<collectives::LeaderTransport> leaders,
            RankGroup ranks, double cores, const HostClock& clock, LauncherLine* launcher, std::int32_t first_set_id);

    base::Config config_;
    std::unique_ptr<collectives::ControlPlane> control_plane_;
    std::unique_ptr<collectives::BulkTransport> bulk_;       // null if the control plane also carries the data
    std::unique_ptr<collectives::LeaderTransport> leaders_;  // may be null
    collectives::LocalGroup group_;
    base::Logger logger_;
    std::shared_ptr<collectives::Arena> arena_;
    base::RecorderWriter recorder_;  // under recorder_mutex_, after create()
    collectives::ResidentHeap heap_;
    std::atomic<std::uint32_t> pending_{0};  // see the constructor of ProcessSet
    std::shared_ptr<ProcessSet> world_;
    // Declared before the messenger and the engine, because both give their callbacks to this thread.
    CallbackThread callbacks_;
    Messenger messenger_;
    Engine engine_;
    ProcessSets process_sets_;
    HostTimeline timeline_;
    ProgramScopes scopes_;
    LauncherLine* launcher_;  // may be null
    int pid_;
    int threads_;  // see threads_per_rank()

    std::mutex recorder_mutex_;  // A thread that holds this mutex may lock the heap's mutex, but no other.
    /// A thread holds this mutex while it reads metrics from the arena, or while it clears has_metrics_ before the
    /// arena is released. A thread that holds this mutex locks no other mutex.
    std::mutex metrics_mutex_;
    bool has_metrics_ = true;  // under metrics_mutex_
    // The endpoint's threads use this Runtime. So leave_job() destroys it before it releases the memory.
    std::unique_ptr<MetricsEndpoint> metrics_endpoint_;
    std::mutex busy_mutex_;
    std::vector<BusyScope> busy_;
    std::mutex shutdown_mutex_;
    bool messages_ended_ = false;  // under shutdown_mutex_
    bool shut_down_ = false;       // under shutdown_mutex_
    /// True if release_after_abort() must not release the memory. It was already released, or the timeline may still
    /// use it. Protected by shutdown_mutex_.
    bool keeps_or_has_released_ = false;
};

}  // namespace rueda::core
