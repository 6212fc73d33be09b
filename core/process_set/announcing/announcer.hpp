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

/// What this rank announces in a set: its table of tensors, and its mailbox. This class owns the enqueue lock.
///
/// Threads: any thread may call the functions for callers; they take the enqueue lock. The functions for the other
/// parts of the set run under this lock, unless a comment says otherwise; those parts take the lock with
/// enqueue_mutex(). A thread that holds the lock takes no other lock, except the mutex of the notes about pending
/// memory (memory_guard.hpp).
class Announcer {
public:
    using Atomics = base::StdAtomics;

    /// Says which rank calls an operation that all ranks of the host have announced.
    enum class Caller {
        last_rank,  ///< the rank that announces last appends the call to the log
        leader,     ///< in a set on several hosts, the leader requests the call
    };
    /// The parts of the set that the announcer uses. They must outlive it.
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

    // ---- for callers: any thread ------------------------------------------------------------------------------------

    // These functions do the same as the functions of ProcessSet with the same names.
    Status submit(std::string_view name, const Request& request, Completion& completion, Urgency urgency);
    Status submit(TensorEntry& entry, const Request& request, Completion& completion, Urgency urgency);
    Status submit_allreduce(TensorEntry* entry, std::string_view name, const rueda_tensor& in, const rueda_tensor& out,
                            const rueda_options& options, Completion& completion, Urgency urgency);
    TensorEntry& pin(std::string_view name);
    void unpin(TensorEntry& entry);
    void announce_shutdown();
    [[nodiscard]] bool has_announced_shutdown() const { return shut_down_announced_.load(std::memory_order_seq_cst); }
    [[nodiscard]] bool has_deferred() const { return deferred_.load(std::memory_order_seq_cst); }
    /// Like has_deferred(), but only a hint, for the thread that drives progress.
    [[nodiscard]] bool may_have_deferred() const { return deferred_.load(std::memory_order_relaxed); }
    struct PendingTensor {
        std::string name;
        std::int64_t submitted_ns = 0;
    };
    [[nodiscard]] std::vector<PendingTensor> pending_tensors();

    // ---- for the other parts of the set -----------------------------------------------------------------------------

    [[nodiscard]] std::mutex& enqueue_mutex() { return enqueue_mutex_; }
    [[nodiscard]] TensorTable& table() { return table_; }
    [[nodiscard]] const TensorTable& table() const { return table_; }
    /// The thread that drives progress reads the log without the lock.
    [[nodiscard]] const Log<Atomics>& log() const { return log_; }
    /// The registrar, for the leader of a set on several hosts.
    [[nodiscard]] Registrar<Atomics>& registrar() { return registrar_; }
    [[nodiscard]] Caller caller() const { return caller_; }

    /// Returns success, or the reason why no operation can be started any more. `name` is the tensor of the operation
    /// that was to be started; empty for an operation without a name.
    [[nodiscard]] Status check_open(std::string_view name) const;
    /// Whether the job has not ended and no rank has begun its shutdown.
    [[nodiscard]] bool is_open() const;
    /// While this rank is in join(), its callers cannot start operations.
    void set_joining(bool joining) { is_joining_ = joining; }
    /// Runs `submit`, which contains all steps of a submit that may need memory, before the operation is pending. So if
    /// there is no memory, nothing has changed.
    template <class Submit>
    Status all_or_nothing(Submit&& submit) const {
        try {
            return submit();
        } catch (const std::bad_alloc&) {
            return no_memory_to_start_;
        }
    }
    /// Writes the caller's request into the entry. If the caller asked for no compression, the setting decides about
    /// it.
    void ask_for(TensorEntry& entry, const Request& request) const;
    // The following functions must not throw, because the other ranks are about to see the announcement.
    /// Makes the operation of `entry` pending, and announces it.
    void start(TensorEntry& entry, Completion& completion, Urgency urgency) noexcept;
    /// Makes the operation pending without announcing it, because the number of its group must be called first.
    void hold(TensorEntry& entry, Completion& completion) noexcept;
    void announce(TensorEntry& entry, Urgency urgency) noexcept;
    /// Whether members of the last group with the name of `entry` are still pending. After a disagreement, or if the
    /// name has lost its slot, the name may be forgotten earlier than its members.
    [[nodiscard]] bool has_pending_members(const TensorEntry& entry);
    /// Announces all held members of a group. `count` is the entry of the group's number, which was called.
    void announce_held(TensorEntry& count);
    /// Ends the held members of a group without announcing them.
    void end_held(TensorEntry& count, const Status& status);

    /// The entry for the next operation without a name that a caller starts.
    [[nodiscard]] TensorEntry& next_unnamed() {
        return table_.unnamed(static_cast<std::uint32_t>(unnamed_calls_ % view_.extent().unnamed_slots));
    }
    /// Returns the entry for the next call without a name, and counts this call. This rank uses it to stand in for an
    /// operation that other ranks announced.
    TensorEntry& take_next_unnamed();
    /// The number of calls without a name that this rank has made.
    [[nodiscard]] std::uint64_t unnamed_calls() const { return unnamed_calls_; }

    /// Whether all operations that callers submitted are announced.
    [[nodiscard]] bool has_announced_all() const {
        return unposted_.empty() && unposted_resolves_.empty() && unnamed_waiting_.empty();
    }
    /// Posts that this rank has no pending operation. Returns false if the mailbox is full.
    [[nodiscard]] bool try_post_settle();
    /// Called without the lock. Posts the requests that found the mailbox full, and starts the operations that waited
    /// for their slot, in the order in which they came. Returns whether operations have ended for which other threads
    /// may wait.
    bool retry_deferred();
    /// Called without the lock, after a turn of the leader that did something. The leader is the registrar and handles
    /// the posts in its turn. It may have to wait until all members have read which slot numbers are free. Then
    /// retry_deferred() continues with the announcements that it keeps.
    void retry_numbers_later();
    /// Called without the lock, in the thread that drives progress: checks whether the direct announcement can be
    /// completed. There must be a direct announcement. If some member counts this generation, or announces nothing
    /// more, this rank counts its announcement too. Then the log says how the operation ends. If the slot is retired,
    /// the arrival shows it.
    DirectState turn_direct(std::uint64_t last_position = kNoLastPosition);

    /// Returns the entry that is bound to the slot, or whose name this rank has announced in full; null if there is
    /// none.
    [[nodiscard]] TensorEntry* entry_of_slot(std::uint32_t slot);
    /// Ends the operation of an entry that may have lost its slot. Because of the lock, no other thread can submit the
    /// name before the entry is forgotten.
    void complete_and_forget(TensorEntry& entry, const Status& status);
    /// Called when the shutdown of a rank has failed a slot. If the leader calls operations, complete operations that
    /// were not called fail as well. So the requests about them that were not posted yet are dropped.
    void forget_uncalled();
    /// Ends everything pending with `reason`.
    void fail_pending(const Status& reason);
    /// Like fail_pending(), and after this submit() fails with `reason`.
    void fail_all(const Status& reason);
    /// Adds to `awaited` the tensors by which `completion` is still pending.
    void add_awaited(const Completion& completion, std::vector<AwaitedTensor>& awaited);

private:
    struct Waiting {
        Request request;
        Completion* completion;
        std::int64_t submitted_ns;
    };

    // announcing.cpp
    void begin_pending(TensorEntry& entry, Completion& completion) noexcept;
    [[nodiscard]] Status check_free(const TensorEntry& entry);
    void prefetch(const TensorEntry& entry) const;
    void note_memory(const TensorEntry& entry) const;
    void count_arrival(TensorEntry& entry, bool changed, Urgency urgency);
    void announce_unnamed(const Request& request, Completion& completion, Urgency urgency);
    void start_unnamed(const Request& request, Completion& completion, Urgency urgency) noexcept;
    [[nodiscard]] std::optional<ReadyCall<Atomics>> ready_call(const TensorEntry& entry, Urgency urgency) const;
    void after_counting(TensorEntry& entry, Counted counted, Urgency urgency);
    [[nodiscard]] bool signatures_agree(std::uint32_t slot, std::uint64_t generation) const;

    // posting.cpp
    void announce_in_full(TensorEntry& entry);
    bool try_post_full(TensorEntry& entry);
    void resolve(TensorEntry& entry);
    bool try_post_resolve(const TensorEntry& entry);
    MailboxRecord<Atomics>* next_record();
    [[nodiscard]] bool try_post_shutdown();
    void finish_post(const Result<std::uint64_t>& appended);
    void tell_deferred();
    void tell_deferred_count();

    // announcer.cpp
    void fail_deferred(const Status& reason);

    SetView view_;
    NegotiationMemory<Atomics> memory_;  // a copy, because the fast path of small operations reads it
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
    Compression compression_;  // the compression in the setting
    bool inspects_;
    Status no_memory_to_start_;  // allocated in advance, because there may be no memory for it later

    std::mutex enqueue_mutex_;
    Log<Atomics> log_;  // this rank appends to the log with this
    Registrar<Atomics> registrar_;
    TensorTable table_;
    EntryQueue unposted_;  // full announcements that found the mailbox full
    // resolve requests that found the mailbox full, for entries whose generation is complete
    EntryQueue unposted_resolves_;
    std::deque<Waiting> unnamed_waiting_;  // operations whose slot still has a pending operation
    std::uint64_t unnamed_calls_ = 0;
    // also true while the shutdown waits because the mailbox is full: `shut_down_announced_`
    bool shut_down_posted_ = false;
    bool is_joining_ = false;
    std::optional<Status> failed_;

    // Written under the enqueue lock; other threads read these.
    std::atomic<bool> shut_down_announced_{false};
    // one of the three queues above is not empty, or announcements of the registrar wait
    std::atomic<bool> deferred_{false};
};

}  // namespace rueda::core
