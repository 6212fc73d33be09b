// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/config.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/negotiation/calling.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/registrar.hpp"
#include "core/operations/requests.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcement_writer.hpp"
#include "core/process_set/announcing/direct_announcements.hpp"
#include "core/process_set/announcing/input_inspection.hpp"
#include "core/process_set/common/end_reasons.hpp"
#include "core/process_set/common/joined_members.hpp"
#include "core/process_set/common/log_cursor.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/recording.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/urgency.hpp"
#include "core/process_set/common/waking.hpp"

namespace rueda::core {

/// What this rank announces in a process set: its table of tensors and its mailbox. This class owns the enqueue lock.
///
/// Threads: the functions for callers run in any thread and take the enqueue lock. The other functions are for other
/// parts of the set. They run under this lock, unless their comment says otherwise; the other parts take the lock with
/// enqueue_mutex(). A thread that holds the lock takes only one other lock: the mutex of memory_guard.hpp.
class Announcer {
public:
    using Atomics = base::StdAtomics;

    /// Which rank causes the call of an operation when all ranks of the host have announced it.
    enum class Caller {
        last_rank,  ///< the rank that announces last appends the call to the log
        leader,     ///< in a set on several hosts, the host's leader requests the call
    };
    /// The parts of the set that the announcer uses. They must outlive the announcer.
    struct Parts {
        const InputInspection& inspection;
        DirectAnnouncements& direct;
        const JoinedMembers& joined;
        Recording& recording;
        OperationEnds& ends;
        const EndReasons& reasons;
        Waking& waking;
        const LogCursor& cursor;
    };
    Announcer(const base::Config& config, const SetView& view, Caller caller, const Parts& parts);

    // The following functions are for callers. ProcessSet has functions with the same names, which have comments.
    Status submit(TensorEntry* known, std::string_view name, const Request& request, Completion& completion,
                  Urgency urgency);
    Status submit(TensorEntry* known, std::string_view name, const Arguments& arguments, const rueda_options& options,
                  Completion& completion, Urgency urgency);
    TensorEntry& pin(std::string_view name);
    void unpin(TensorEntry& entry);
    void announce_shutdown();
    [[nodiscard]] bool has_announced_shutdown() const { return shut_down_announced_.load(std::memory_order_seq_cst); }
    [[nodiscard]] bool has_deferred() const { return deferred_.load(std::memory_order_seq_cst); }
    /// Like has_deferred(), but may return an older value. An older value is good enough for the thread that drives
    /// progress.
    [[nodiscard]] bool may_have_deferred() const { return deferred_.load(std::memory_order_relaxed); }
    struct PendingTensor {
        std::string name;
        std::int64_t submitted_ns = 0;
    };
    [[nodiscard]] std::vector<PendingTensor> pending_tensors();

    [[nodiscard]] std::mutex& enqueue_mutex() { return enqueue_mutex_; }
    [[nodiscard]] TensorTable& table() { return table_; }
    [[nodiscard]] const TensorTable& table() const { return table_; }
    /// Returns the log. Only the thread that drives progress may use the result, because it may read the log without
    /// the lock.
    [[nodiscard]] const Log<Atomics>& log() const { return log_; }
    /// Returns this rank's access to the role of the registrar. In a set on several hosts, the leader uses it.
    [[nodiscard]] Registrar<Atomics>& registrar() { return registrar_; }
    [[nodiscard]] Caller caller() const { return caller_; }

    /// Returns success if an operation can be started. Otherwise returns the reason why not. `name` is the name of this
    /// operation's tensor, for the error; it is empty for an operation without a name.
    [[nodiscard]] Status check_open(std::string_view name) const;
    /// Whether the job goes on, and no rank has begun its shutdown.
    [[nodiscard]] bool is_open() const;
    /// Records whether this rank is in join(). During a join, the callers of this rank cannot start operations.
    void set_joining(bool joining) { is_joining_ = joining; }
    /// Calls `submit`. This function must allocate all the memory that it needs before it makes the operation pending.
    /// If memory runs out, nothing has changed, and all_or_nothing() returns an error.
    template <class Submit>
    Status all_or_nothing(Submit&& submit) const {
        try {
            return submit();
        } catch (const std::bad_alloc&) {
            return no_memory_to_start_;
        }
    }
    /// Writes the caller's request into the entry. If the caller chose no compression, the setting RUEDA_COMPRESSION
    /// applies.
    void ask_for(TensorEntry& entry, const Request& request) const;
    // start(), hold() and announce() must not throw, because the other ranks are about to see the announcement. start()
    // makes the operation of `entry` pending, and announces it.
    void start(TensorEntry& entry, Completion& completion, Urgency urgency) noexcept;
    /// Makes the operation pending without announcing it. This is for members of a group that must wait until the log
    /// has called the operation that announces the group's number of members.
    void hold(TensorEntry& entry, Completion& completion) noexcept;
    void announce(TensorEntry& entry, Urgency urgency) noexcept;
    /// Whether members of the last group with the name of `entry` are still pending. The operation with the name of the
    /// group itself may have ended already. This happens after the ranks disagreed, or if the name has lost its slot.
    [[nodiscard]] bool has_pending_members(const TensorEntry& entry);
    /// Announces the members of a group that hold() has held back. `count` is the entry of the operation that announces
    /// the group's number of members. The log must have called this operation.
    void announce_held(TensorEntry& count);
    /// Ends the members of a group that hold() has held back, without announcing them.
    void end_held(TensorEntry& count, const Status& status);

    /// Returns the entry for the next operation without a name that a caller of this rank starts.
    [[nodiscard]] TensorEntry& next_unnamed() {
        return table_.unnamed(static_cast<std::uint32_t>(unnamed_calls_ % view_.extent().unnamed_slots));
    }
    /// Returns the entry for the next operation without a name, and counts the operation as started. Call this if this
    /// rank has joined, and announces an operation that other ranks have started.
    TensorEntry& take_next_unnamed();
    /// The number of operations without a name that this rank has started.
    [[nodiscard]] std::uint64_t unnamed_calls() const { return unnamed_calls_; }

    /// Whether all operations that callers submitted are announced.
    [[nodiscard]] bool has_announced_all() const {
        return unposted_.empty() && unposted_resolves_.empty() && unnamed_waiting_.empty();
    }
    /// Posts a *settle* request. It says that this rank has joined and has no pending operation. Returns false if the
    /// mailbox is full.
    [[nodiscard]] bool try_post_settle();
    /// Posts the requests that did not fit into the mailbox earlier. Also starts the operations that waited for their
    /// slot, in the order of their calls. Returns whether operations have ended for which other threads may wait. The
    /// caller must not hold the lock.
    bool retry_deferred();
    /// Call this after the leader has handled requests, without the lock. The leader may keep announcements until all
    /// members have read which slot numbers are free. This function makes sure that retry_deferred() continues with
    /// these announcements.
    void retry_numbers_later();
    /// Checks whether the operation that was announced directly can be completed. There must be such an operation. If
    /// the result is `withdrawn`, this function counts the announcement, and the log will say how the operation ends.
    /// Call this in the thread that drives progress, without the lock.
    DirectState turn_direct(std::uint64_t last_position = kNoLastPosition);

    /// Returns the entry that is bound to the slot. If no entry is bound to it, returns the entry whose name the
    /// registrar has given to the slot. Returns null if this rank has neither.
    [[nodiscard]] TensorEntry* entry_of_slot(std::uint32_t slot);
    /// Ends the operation of `entry`, and forgets the entry if nothing else uses it. The caller holds the lock, so no
    /// other thread can submit the name between these two steps.
    void complete_and_forget(TensorEntry& entry, const Status& status);
    /// Call this after a shutdown has made the operation of a slot fail. On the leader, some requests for calls may not
    /// be posted yet. Their operations fail too, so this function drops these requests.
    void forget_uncalled();
    /// Ends every pending operation with `reason`.
    void fail_pending(const Status& reason);
    /// Like fail_pending(). In addition, submit() fails with `reason` from now on.
    void fail_all(const Status& reason);
    /// Adds to `awaited` the tensors for which `completion` is still waiting.
    void add_awaited(const Completion& completion, std::vector<AwaitedTensor>& awaited);

private:
    struct Waiting {
        Request request;
        Completion* completion;
        std::int64_t submitted_ns;
    };

    // Defined in announcing.cpp:
    void begin_pending(TensorEntry& entry, Completion& completion) noexcept;
    [[nodiscard]] Status check_free(const TensorEntry& entry);
    void prefetch(const TensorEntry& entry) const;
    void look_ahead(TensorEntry& entry);
    void note_memory(const TensorEntry& entry) const;
    void count_arrival(TensorEntry& entry, bool changed, Urgency urgency);
    void announce_unnamed(const Request& request, Completion& completion, Urgency urgency);
    void start_unnamed(const Request& request, Completion& completion, Urgency urgency) noexcept;
    [[nodiscard]] std::optional<ReadyCall<Atomics>> ready_call(const TensorEntry& entry, Urgency urgency) const;
    void after_counting(TensorEntry& entry, Counted counted, Urgency urgency);
    [[nodiscard]] bool signatures_agree(std::uint32_t slot, std::uint64_t generation) const;

    // Defined in posting.cpp:
    void announce_in_full(TensorEntry& entry);
    bool try_post_full(TensorEntry& entry);
    void resolve(TensorEntry& entry);
    bool try_post_resolve(const TensorEntry& entry);
    MailboxRecord<Atomics>* next_record();
    [[nodiscard]] bool try_post_shutdown();
    void finish_post(const Result<std::uint64_t>& appended);
    void tell_deferred();
    void tell_deferred_count();

    // Defined in announcer.cpp:
    void fail_deferred(const Status& reason);

    SetView view_;
    NegotiationMemory<Atomics> memory_;  // a copy, so that the fast path of small operations has one indirection less
    const Caller caller_;
    const InputInspection& inspection_;
    DirectAnnouncements& direct_;
    const JoinedMembers& joined_;
    Recording& recording_;
    OperationEnds& ends_;
    const EndReasons& reasons_;
    Waking& waking_;
    const LogCursor& cursor_;
    AnnouncementWriter writer_;
    Compression compression_;  // the compression that RUEDA_COMPRESSION asks for
    bool inspects_;
    // The error of an operation that cannot start because memory has run out. It is allocated in advance.
    Status no_memory_to_start_;

    std::mutex enqueue_mutex_;
    Log<Atomics> log_;  // the log, to which this rank appends
    Registrar<Atomics> registrar_;
    TensorTable table_;
    EntryQueue unposted_;  // announcements by name that did not fit into the mailbox yet
    // Operations that all ranks have announced, and whose requests for a call did not fit into the mailbox yet.
    EntryQueue unposted_resolves_;
    // Operations without a name that wait, because an earlier operation in their slot is still pending
    std::deque<Waiting> unnamed_waiting_;
    std::uint64_t unnamed_calls_ = 0;
    // True after announce_shutdown() was called. The announcement of the shutdown may still wait for space in the
    // mailbox.
    bool shut_down_posted_ = false;
    bool is_joining_ = false;
    std::optional<Status> failed_;

    // Only a thread that holds the enqueue lock writes the following fields. Other threads read them.
    std::atomic<bool> shut_down_announced_{false};
    // True if one of the queues above is not empty, if the shutdown waits for space in the mailbox, or if the registrar
    // keeps announcements.
    std::atomic<bool> deferred_{false};
};

}  // namespace rueda::core
