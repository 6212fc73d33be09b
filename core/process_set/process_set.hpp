// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings/config.hpp"
#include "base/system/clock.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/operations/requests.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/set_identity.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/announcing/direct_announcements.hpp"
#include "core/process_set/announcing/direct_execution.hpp"
#include "core/process_set/announcing/input_inspection.hpp"
#include "core/process_set/batch_runner.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/batches/payload_reduction.hpp"
#include "core/process_set/batches/row_outputs.hpp"
#include "core/process_set/common/end_reasons.hpp"
#include "core/process_set/common/joined_members.hpp"
#include "core/process_set/common/log_cursor.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/urgency.hpp"
#include "core/process_set/common/waking.hpp"
#include "core/process_set/coordination/groups.hpp"
#include "core/process_set/coordination/join.hpp"
#include "core/process_set/coordination/log_answers.hpp"
#include "core/process_set/coordination/verification.hpp"
#include "core/process_set/hosts.hpp"

namespace rueda::core {

/// One process set, as one rank sees it. Some of its parts announce operations; others execute what the log calls
/// (docs/design/0014-process-set.md).
///
/// Threads: submit() and the other functions that announce run in any thread. They take the enqueue lock, the mutex of
/// class Announcer. step(), finish_at_once(), has_work() and fail_all() run in the thread that drives progress. Lock
/// order: the progress lock, then the enqueue lock, then the mutex of memory_guard.hpp. A thread that holds the enqueue
/// lock takes no other lock than that mutex.
class ProcessSet {
public:
    using Atomics = base::StdAtomics;

    /// An empty `others` means that all members are on this host. `pending` counts the operations of all sets of this
    /// rank that were submitted and have not completed. `pending` must outlive this object. Any thread may read
    /// `pending`; all accesses are seq_cst, because ProgressLock::leave() relies on their order.
    ProcessSet(const base::Config& config, SetIdentity identity, std::shared_ptr<collectives::Arena> arena,
               const NegotiationExtent& extent, const std::optional<OtherHosts>& others,
               std::atomic<std::uint32_t>& pending);

    [[nodiscard]] const SetIdentity& identity() const { return identity_; }
    /// set_rank() is this rank's position among the set's members, counted over all hosts. set_size() is the number of
    /// members.
    [[nodiscard]] int set_rank() const { return static_cast<int>(view_.set_rank); }
    [[nodiscard]] int set_size() const { return static_cast<int>(view_.set_size); }

    /// If the network between hosts fails, `explain` is called before the job ends. It must return the cause of the
    /// failure, or the failure itself if it finds no cause. It may take some time. Call this function before the engine
    /// first runs.
    void explain_failures_with(std::function<Status(const Status& failure)> explain) {
        hosts_.explain_failures_with(std::move(explain));
    }

    [[nodiscard]] Membership membership() const { return view_.membership(); }

    /// Announces a tensor. `known` is the table's entry of the name; if it is null, the function looks up `name`. An
    /// empty `name` then means an operation without a name. If this function fails, the operation was not started. The
    /// error is DuplicateName, or ResourceExhausted if there is no memory, or the reason why no operation can be
    /// started any more. `completion` gets every later result.
    Status submit(TensorEntry* known, std::string_view name, const Request& request, Completion& completion,
                  Urgency urgency) {
        return announcer_.submit(known, name, request, completion, urgency);
    }
    Status submit(std::string_view name, const Request& request, Completion& completion, Urgency urgency) {
        return submit(nullptr, name, request, completion, urgency);
    }
    /// Announces a tensor from the caller's arguments. The arguments are checked only if they differ from those of the
    /// last operation of the name. If `known` is null, `name` must not be empty. The error can also be InvalidArgument.
    Status submit(TensorEntry* known, std::string_view name, const Arguments& arguments, const rueda_options& options,
                  Completion& completion, Urgency urgency) {
        return announcer_.submit(known, name, arguments, options, completion, urgency);
    }
    /// Starts all operations of a group, or none. name_of_member() must have made `names` from `group`. There must be
    /// at least one name.
    Status submit_group(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                        Completion& completion, Urgency urgency) {
        return groups_.submit(group, names, requests, completion, urgency);
    }

    /// Makes `device` the device of this rank in the set. Returns whether this is the first call for this set. Fails
    /// with InvalidArgument if an earlier call named another device.
    Result<bool> claim_device(std::int32_t device);
    [[nodiscard]] bool has_claimed_device() const { return device_.load(std::memory_order_relaxed) >= 0; }

    /// Disconnects from the other members' devices. All members must call this within two seconds. Afterwards this rank
    /// may use NCCL in another set. Call this only when the engine no longer drives this set.
    void disconnect_devices() { runner_.disconnect_devices(); }

    /// Returns the table's entry of `name`, and keeps it in the table until unpin(). A TensorSlot uses this.
    TensorEntry& pin(std::string_view name) { return announcer_.pin(name); }
    void unpin(TensorEntry& entry) { announcer_.unpin(entry); }

    /// Announces that this rank will announce nothing more. If the mailbox is full, a later turn posts the
    /// announcement. A second call does nothing.
    void announce_shutdown() { announcer_.announce_shutdown(); }
    [[nodiscard]] bool has_announced_shutdown() const { return announcer_.has_announced_shutdown(); }
    /// For the stall report. begin_to_await_end() records that this rank waits until all members have announced their
    /// shutdown. `call` names the function in which it waits. end_to_await_end() records that this wait has ended.
    void begin_to_await_end(EndCall call) { core::begin_to_await_end(memory_, view_.rank, call, base::monotonic_ns()); }
    void end_to_await_end() { core::end_to_await_end(memory_, view_.rank); }

    /// Announces that this rank starts no operations until all members have joined. When all have joined, `completion`
    /// ends. Before that, submit() fails, and the rank takes part in the operations of the other ranks without
    /// contributing data. If `counted` is true, averages still count this rank. Fails with InvalidArgument if a join is
    /// in progress. See docs/design/0005-join.md.
    Status announce_join(Completion& completion, bool counted) { return join_.announce(completion, counted); }
    /// Records the source line of the next call of join, for stall reports. Call this before announce_join(). Does
    /// nothing if call sites are not recorded.
    void note_join_site(const char* file, std::int32_t line) { join_.note_site(file, line); }

    /// Call this after a submit with Urgency::driving, in the same thread. Checks up to `looks` times whether the
    /// operation can be completed directly. Returns false if it is still pending; the caller must then drive progress.
    /// Returns true if the operation has ended. Its Completion object is then marked as done only if it holds a part of
    /// the result, as for an operation of variable size.
    [[nodiscard]] bool finish_at_once(int looks) {
        // If this rank has other work, the operation is not checked here (0 looks), and the caller must drive progress,
        // which does all work. Otherwise a rank that calls small operations in a loop would never do its other work.
        return direct_.is_at_once() && direct_.finish_at_once(has_work() ? 0 : looks);
    }

    /// Does the work that is possible now. If `urgent` is true, closes an open batch at once. If `asks_others` is
    /// false, handles only what ranks of this host have announced. This is enough for the last step before the thread
    /// sleeps, because the step before it has asked the other hosts.
    Turn step(bool urgent, bool asks_others = true) noexcept { return runner_.step(urgent, asks_others); }
    [[nodiscard]] bool has_work() const {
        return runner_.has_batch() || runner_.has_launched() || join_.has_to_look() || has_deferred() || has_unread() ||
               hosts_.has_work();
    }
    /// Whether this rank must poll even if nothing is pending, because messages from other hosts wake no thread.
    [[nodiscard]] bool has_to_poll() const { return hosts_.has_to_poll(); }
    /// Whether the log has entries that this rank has not read. Any thread.
    [[nodiscard]] bool has_unread() const { return runner_.has_unread(); }
    /// Whether an announcement waits for a slot or for room in the mailbox. No thread wakes this rank when a slot or
    /// room becomes free, so this rank must check again.
    [[nodiscard]] bool has_deferred() const { return announcer_.has_deferred(); }
    /// The time until which an open batch may wait for more operations.
    [[nodiscard]] std::int64_t hold_until_ns() const { return runner_.hold_until_ns(); }
    /// Whether all members have shut down.
    [[nodiscard]] bool closed() const { return answers_.is_closed(); }
    /// Whether all members have shut down and no other host needs this rank. Only for the thread that drives progress.
    [[nodiscard]] bool has_left() const { return closed() && !runner_.has_launched() && hosts_.have_left(); }
    /// Makes this set call MPI until MPI has sent the last messages of `other`, a set that has been removed.
    void look_after_messages_of(const ProcessSet& other) { hosts_.look_after_messages_of(other.hosts_); }
    /// Cancels the receives of a set that is removed before the job ends. Call this after has_left(). Only for the
    /// thread that drives progress.
    void take_back_receives() { hosts_.take_back_receives(); }
    /// Call this after an abort, before fail_all(). Notifies the other hosts; afterwards the set sends and receives
    /// nothing.
    void leave_other_hosts(const Status& reason) noexcept { hosts_.leave(reason); }
    /// Call this after an abort, before fail_all(). If the log already contains the error of an operation, the
    /// operation ends with that error, as on the other ranks. This function stops at the first log entry that calls an
    /// operation.
    void take_decided_errors() noexcept { runner_.take_decided_errors(); }
    /// Ends every pending operation with `reason`. Afterwards, submit() fails with `reason`.
    void fail_all(const Status& reason) noexcept;
    /// Frees the memory that only operations need. Call this after fail_all(), when no thread will drive progress
    /// again. The object itself stays, because TensorSlots and late threads still use it
    /// (docs/design/0001-negotiation.md, "After the end").
    void release_memory();

    [[nodiscard]] const NegotiationMemory<Atomics>& memory() const { return memory_; }
    /// Returns the operations that make no progress. On one host, `monitor` finds them. On several hosts, the root of
    /// the tree finds them, and only the leaders return them. The background thread calls this.
    [[nodiscard]] std::optional<StallMonitor::Finding> find_stall(StallMonitor& monitor, std::int64_t now_ns) {
        return hosts_.find_stall(monitor, now_ns);
    }
    /// The batch in progress: its position in the log and, if known, the chunks into which its data are divided.
    /// Threads: the thread that drives progress.
    struct ChunksInProgress {
        std::uint64_t position = 0;
        std::optional<collectives::BatchChunks> chunks;
    };
    [[nodiscard]] ChunksInProgress chunks_in_progress() const { return {cursor_.position(), runner_.chunks()}; }
    /// The oldest batch that this rank's GPU has got but not finished. Any thread.
    [[nodiscard]] std::optional<LaunchedBatch> oldest_launched() const { return runner_.oldest_launched(); }
    /// Whether this rank prints what find_stall() finds. Any thread.
    [[nodiscard]] bool reports_stalls(const StallMonitor& monitor, std::int64_t now_ns) const {
        return hosts_.reports_stalls(monitor, now_ns);
    }
    /// This rank's number in the job.
    [[nodiscard]] int own_job_rank() const { return view_.own_job_rank(); }
    /// The members on other hosts, by their numbers in the job.
    [[nodiscard]] std::vector<std::int32_t> ranks_elsewhere() const { return hosts_.ranks_elsewhere(); }
    /// The text with which error messages about this set begin; "" for the world.
    [[nodiscard]] std::string title() const { return identity_.title(); }
    /// The names of all operations that are pending on this rank, and the times of their submission. Takes the enqueue
    /// lock.
    [[nodiscard]] std::vector<Announcer::PendingTensor> pending_tensors() { return announcer_.pending_tensors(); }
    /// The tensors on this rank for which `completion` still waits. Takes the enqueue lock. Any thread.
    [[nodiscard]] std::vector<AwaitedTensor> awaited_by(const Completion& completion);

private:
    // The parts of the set. Each part uses only parts that are declared above it.
    SetIdentity identity_;
    std::shared_ptr<collectives::Arena> arena_;
    NegotiationMemory<Atomics> memory_;
    SetView view_;
    LogCursor cursor_;
    Waking waking_;
    JoinedMembers joined_;
    EndReasons reasons_;
    Recording recording_;
    OperationEnds ends_;
    Announced announced_;
    RowOutputs outputs_;
    PayloadReduction reduction_;
    InputInspection inspection_;
    DirectExecution direct_execution_;
    DirectAnnouncements direct_;
    Announcer announcer_;
    Groups groups_;
    Verification verification_;
    Join join_;
    Hosts hosts_;
    LogAnswers answers_;
    BatchRunner runner_;
    std::atomic<std::int32_t> device_{-1};  // accesses are relaxed, because no other data depend on this value
};

}  // namespace rueda::core
