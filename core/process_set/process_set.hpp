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

/// One process set, as one rank sees it. It connects its parts, which do the work (docs/design/0014-process-set.md).
/// Some of them announce operations, the others execute what the log calls.
///
/// Threads: submit() and the other functions that announce, from any thread; they take the enqueue lock. step(),
/// finish_at_once(), has_work() and fail_all() from the thread that drives progress. Lock order: the right to drive
/// progress, then the enqueue lock. The notes of pending memory (memory_guard.hpp)
/// have a mutex of their own, which is taken last; no other lock is taken while the enqueue lock is held.
class ProcessSet {
public:
    using Atomics = base::StdAtomics;

    /// An empty `others` means that all members are on this host. `pending` counts the operations of all sets of this
    /// rank that were submitted and not completed; it outlives this object, and any thread may read it. seq_cst:
    /// partner of Engine::leave().
    ProcessSet(const base::Config& config, SetIdentity identity, std::shared_ptr<collectives::Arena> arena,
               const NegotiationExtent& extent, const std::optional<OtherHosts>& others,
               std::atomic<std::uint32_t>& pending);

    [[nodiscard]] const SetIdentity& identity() const { return identity_; }
    /// This rank's position among the set's members, counted over all hosts, and the number of members.
    [[nodiscard]] int set_rank() const { return static_cast<int>(view_.set_rank); }
    [[nodiscard]] int set_size() const { return static_cast<int>(view_.set_size); }

    /// Sets a function that is called before a failure of the network between hosts ends the job. It returns the cause,
    /// or the failure itself, and may take a moment. Set it before the engine first runs.
    void explain_failures_with(std::function<Status(const Status& failure)> explain) {
        hosts_.explain_failures_with(std::move(explain));
    }

    // ---- announcing -----------------------------------------------------------------------------------------------

    /// Announces a tensor. An empty `name` means an operation without a name. If the call fails, nothing was begun. It
    /// fails with DuplicateName, with ResourceExhausted if there is no memory for the name, or with the reason why
    /// nothing can be started any more. Every later result comes through `completion`.
    Status submit(std::string_view name, const Request& request, Completion& completion, Urgency urgency) {
        return announcer_.submit(name, request, completion, urgency);
    }
    /// The same for a name that was already looked up.
    Status submit(TensorEntry& entry, const Request& request, Completion& completion, Urgency urgency) {
        return announcer_.submit(entry, request, completion, urgency);
    }
    /// An allreduce directly from the caller's arguments. They are checked only if they differ from those of the last
    /// operation on this entry. If `entry` is null, `name` is looked up and must not be empty.
    Status submit_allreduce(TensorEntry* entry, std::string_view name, const rueda_tensor& in, const rueda_tensor& out,
                            const rueda_options& options, Completion& completion, Urgency urgency) {
        return announcer_.submit_allreduce(entry, name, in, out, options, completion, urgency);
    }
    /// Starts all operations or none. `names` has at least one element; name_of_member() made them from `group`.
    Status submit_group(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                        Completion& completion, Urgency urgency) {
        return groups_.submit(group, names, requests, completion, urgency);
    }

    /// Keeps an entry for a TensorSlot.
    TensorEntry& pin(std::string_view name) { return announcer_.pin(name); }
    void unpin(TensorEntry& entry) { announcer_.unpin(entry); }

    /// Announces that this rank will announce nothing more: at once, or, while its mailbox is full, in a later turn. A
    /// second call does nothing.
    void announce_shutdown() { announcer_.announce_shutdown(); }
    [[nodiscard]] bool has_announced_shutdown() const { return announcer_.has_announced_shutdown(); }
    /// For the stall report: from the first call on, this rank waits in `call` until all members have announced their
    /// shutdown; from the second one on it does not.
    void begin_to_await_end(EndCall call) { core::begin_to_await_end(memory_, view_.rank, call, base::monotonic_ns()); }
    void end_to_await_end() { core::end_to_await_end(memory_, view_.rank); }

    /// Announces that this rank has nothing more to announce until all members have said so; then `completion` ends.
    /// Until then submits are refused, and the rank takes part in what the others do without contributing anything.
    /// With `counted`, averages still divide by it. Fails with InvalidArgument if a join is in progress. See
    /// docs/design/0005-join.md.
    Status announce_join(Completion& completion, bool counted) { return join_.announce(completion, counted); }
    /// Records where the call of the next join stands, for stall reports. Only for a set with call sites; call it
    /// before announce_join().
    void note_join_site(const char* file, std::int32_t line) { join_.note_site(file, line); }

    /// Call this after a submit with Urgency::driving, in the same thread. It looks `looks` times whether the operation
    /// can be completed; one that was announced directly can be completed without other threads. If it returns true,
    /// the operation has ended, and its completion is done if it was needed. If it returns false, the operation is
    /// pending like any other: drive progress.
    [[nodiscard]] bool finish_at_once(int looks) {
        // If this rank has other work, the engine must be driven. Otherwise no thread would drive progress during a
        // loop of such calls.
        return direct_.is_at_once() && direct_.finish_at_once(has_work() ? 0 : looks);
    }

    // ---- progress ---------------------------------------------------------------------------------------------------

    /// Does what can be done now. With `urgent`, an open batch is closed at once. Without `asks_others`, it looks only
    /// at what this host reports. This is enough before a sleep, shortly after a turn with `asks_others`.
    Turn step(bool urgent, bool asks_others = true) noexcept { return runner_.step(urgent, asks_others); }
    [[nodiscard]] bool has_work() const {
        return runner_.has_batch() || join_.has_to_look() || has_deferred() || has_unread() || hosts_.has_work();
    }
    /// Whether this rank must look now and then, even with nothing pending, because messages from other hosts wake no
    /// thread.
    [[nodiscard]] bool has_to_poll() const { return hosts_.has_to_poll(); }
    /// Whether the log has entries that this rank has not read. Any thread may call it.
    [[nodiscard]] bool has_unread() const { return runner_.has_unread(); }
    /// Whether an announcement waits for a slot, or for room in the mailbox. Nothing wakes this rank when these become
    /// free, so it has to look again.
    [[nodiscard]] bool has_deferred() const { return announcer_.has_deferred(); }
    /// The time until which an open batch may grow.
    [[nodiscard]] std::int64_t hold_until_ns() const { return runner_.hold_until_ns(); }
    /// Whether all members have shut down.
    [[nodiscard]] bool closed() const { return answers_.is_closed(); }
    /// Whether, in addition, no other host needs this rank any more. Only the thread that drives progress may call it.
    [[nodiscard]] bool has_left() const { return closed() && hosts_.have_left(); }
    /// Messages that a removed set has sent may still lie inside MPI. This set takes care of them from now on, for as
    /// long as the removed set would have.
    void look_after_messages_of(const ProcessSet& other) { hosts_.look_after_messages_of(other.hosts_); }
    /// For a set that is removed before the job ends, after has_left(). Only the thread that drives progress may call
    /// it.
    void take_back_receives() { hosts_.take_back_receives(); }
    /// Call this after an abort, before fail_all(): it tells the other hosts, and sends and receives nothing
    /// afterwards.
    void leave_other_hosts(const Status& reason) noexcept { hosts_.leave(reason); }
    /// Ends everything pending with `reason`. From now on submit() fails with it.
    void fail_all(const Status& reason) noexcept;
    /// Frees the memory that only operations need. Call it after fail_all(), when no thread will drive progress any
    /// more. The object itself stays, because TensorSlots and threads that come late still use it
    /// (docs/design/0001-negotiation.md, "After the end").
    void release_memory();

    // ---- reports ----------------------------------------------------------------------------------------------------

    [[nodiscard]] const NegotiationMemory<Atomics>& memory() const { return memory_; }
    /// The operations that make no progress, found by `monitor` on this host. In a set on several hosts, the root finds
    /// them, and only the leaders return them. The background thread calls this.
    [[nodiscard]] std::optional<StallMonitor::Finding> find_stall(StallMonitor& monitor, std::int64_t now_ns) {
        return hosts_.find_stall(monitor, now_ns);
    }
    /// This rank's number in the job.
    [[nodiscard]] int own_job_rank() const { return view_.own_job_rank(); }
    /// The members on other hosts, as ranks of the job.
    [[nodiscard]] std::vector<std::int32_t> ranks_elsewhere() const { return hosts_.ranks_elsewhere(); }
    /// The beginning of a message about this set: "" for the world.
    [[nodiscard]] std::string title() const { return identity_.title(); }
    /// Names and times of what is pending on this rank, for diagnostics. Takes the enqueue lock.
    [[nodiscard]] std::vector<Announcer::PendingTensor> pending_tensors() { return announcer_.pending_tensors(); }
    /// The tensors by which `completion` is still pending on this rank. Takes the enqueue lock; any thread.
    [[nodiscard]] std::vector<AwaitedTensor> awaited_by(const Completion& completion);

private:
    // The parts, in the order in which they use each other: each part knows only parts above it.
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
};

}  // namespace rueda::core
