// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings/compression_rules.hpp"
#include "base/settings/config.hpp"
#include "base/system/clock.hpp"
#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/host/host_communicator.hpp"
#include "collectives/host/tasks/numa_nodes.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/hosts/leader.hpp"
#include "core/negotiation/arrivals.hpp"
#include "core/negotiation/calling.hpp"
#include "core/negotiation/direct.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/registrar.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/set_identity.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announced.hpp"
#include "core/process_set/announcement_writer.hpp"
#include "core/process_set/called_batch.hpp"
#include "core/process_set/row_outputs.hpp"
#include "core/process_set/set_view.hpp"
#include "core/process_set/urgency.hpp"
#include "core/process_set/waking.hpp"

namespace rueda::core {

/// The result of one turn of the engine on this set.
enum class Turn {
    idle,      ///< nothing is called
    advanced,  ///< something was done
    waiting,   ///< a batch is in progress and waits for another rank of this host
    polling,   ///< a batch is in progress and waits for another host, whose messages wake no thread
    holding,   ///< a batch is open and may still grow
};

/// For a set on several hosts: how it reaches the other hosts.
struct OtherHosts {
    const collectives::LocalGroup& group;
    collectives::Transport& transport;
    collectives::HierarchicalOptions options;
};

/// Returns nothing if all members of the group are on one host.
[[nodiscard]] std::optional<OtherHosts> other_hosts(const base::Config& config, const collectives::LocalGroup& group,
                                                    collectives::Transport* transport);

/// One process set, as one rank sees it: announcements on one side, the log on the other, and the current batch in
/// between.
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
               const NegotiationExtent& extent, const collectives::NumaNodes& nodes,
               const std::optional<OtherHosts>& others, std::atomic<std::uint32_t>& pending);

    [[nodiscard]] const SetIdentity& identity() const { return identity_; }
    /// This rank's position among the set's members, counted over all hosts, and the number of members.
    [[nodiscard]] int set_rank() const { return static_cast<int>(set_rank_); }
    [[nodiscard]] int set_size() const { return static_cast<int>(set_size_); }

    /// Sets a function that is called before a failure of the network between hosts ends the job. It returns the cause,
    /// or the failure itself, and may take a moment. Set it before the engine first runs.
    void explain_failures_with(std::function<Status(const Status& failure)> explain) { explain_ = std::move(explain); }

    // ---- announcing -----------------------------------------------------------------------------------------------

    /// Announces a tensor. An empty `name` means an operation without a name. If the call fails, nothing was begun. It
    /// fails with DuplicateName, with ResourceExhausted if there is no memory for the name, or with the reason why
    /// nothing can be started any more. Every later result comes through `completion`.
    Status submit(std::string_view name, const Request& request, Completion& completion, Urgency urgency);
    /// The same for a name that was already looked up.
    Status submit(TensorEntry& entry, const Request& request, Completion& completion, Urgency urgency);
    /// An allreduce directly from the caller's arguments. They are checked only if they differ from those of the last
    /// operation on this entry. If `entry` is null, `name` is looked up and must not be empty.
    Status submit_allreduce(TensorEntry* entry, std::string_view name, const rueda_tensor& in, const rueda_tensor& out,
                            const rueda_options& options, Completion& completion, Urgency urgency);
    /// Starts all operations or none. `names` has at least one element; name_of_member() made them from `group`.
    Status submit_group(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                        Completion& completion, Urgency urgency);

    /// Keeps an entry for a TensorSlot.
    TensorEntry& pin(std::string_view name);
    void unpin(TensorEntry& entry);

    /// Announces that this rank will announce nothing more: at once, or, while its mailbox is full, in a later turn. A
    /// second call does nothing.
    void announce_shutdown();
    [[nodiscard]] bool has_announced_shutdown() const { return shut_down_announced_.load(std::memory_order_seq_cst); }
    /// For the stall report: from the first call on, this rank waits in `call` until all members have announced their
    /// shutdown; from the second one on it does not.
    void begin_to_await_end(EndCall call) { core::begin_to_await_end(memory_, rank_, call, base::monotonic_ns()); }
    void end_to_await_end() { core::end_to_await_end(memory_, rank_); }

    /// Announces that this rank has nothing more to announce until all members have said so; then `completion` ends.
    /// Until then submits are refused, and the rank takes part in what the others do without contributing anything.
    /// With `counted`, averages still divide by it. Fails with InvalidArgument if a join is in progress. See
    /// docs/design/0005-join.md.
    Status announce_join(Completion& completion, bool counted);
    /// Records where the call of the next join stands, for stall reports. Only for a set with call sites; call it
    /// before announce_join().
    void note_join_site(const char* file, std::int32_t line);

    /// Call this after a submit with Urgency::driving, in the same thread. It looks `looks` times whether the operation
    /// can be completed; one that was announced directly can be completed without other threads. If it returns true,
    /// the operation has ended, and its completion is done if it was needed. If it returns false, the operation is
    /// pending like any other: drive progress.
    [[nodiscard]] bool finish_at_once(int looks);

    // ---- progress ---------------------------------------------------------------------------------------------------

    /// Does what can be done now. With `urgent`, an open batch is closed at once. Without `asks_others`, it looks only
    /// at what this host reports. This is enough before a sleep, shortly after a turn with `asks_others`.
    Turn step(bool urgent, bool asks_others = true) noexcept;
    [[nodiscard]] bool has_work() const {
        return task_ != nullptr || joins_soon_.load(std::memory_order_seq_cst) || has_deferred() || has_unread() ||
               (leader_ != nullptr && leader_->has_work());
    }
    /// Whether this rank must look now and then, even with nothing pending, because messages from other hosts wake no
    /// thread.
    [[nodiscard]] bool has_to_poll() const {
        return leader_ != nullptr ? !leader_->has_left()
                                  : base::coarse_monotonic_ns() < sending_until_ns_.load(std::memory_order_relaxed);
    }
    /// Whether the log has entries that this rank has not read. Any thread may call it.
    [[nodiscard]] bool has_unread() const { return log_.is_published(next_.load(std::memory_order_relaxed)); }
    /// Whether something waits for its slot, or for room in the mailbox, which wakes no thread.
    [[nodiscard]] bool has_deferred() const { return deferred_.load(std::memory_order_seq_cst); }
    /// Until when an open batch may grow.
    [[nodiscard]] std::int64_t hold_until_ns() const { return hold_until_ns_; }
    /// Whether all members have shut down.
    [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_acquire); }
    /// Whether, in addition, no other host needs this rank any more. Only the thread that drives progress may call it.
    [[nodiscard]] bool has_left() const { return closed() && (leader_ == nullptr || leader_->has_left()); }
    /// Messages that a removed set has sent may still lie inside MPI. This set takes care of them from now on, for as
    /// long as the removed set would have.
    void look_after_messages_of(const ProcessSet& other);
    /// For a set that is removed before the job ends, after has_left(). Only the thread that drives progress may call
    /// it.
    void take_back_receives();
    /// Call this after an abort, before fail_all(): it tells the other hosts, and sends and receives nothing
    /// afterwards.
    void leave_other_hosts(const Status& reason) noexcept;
    /// Ends everything pending with `reason`. From now on submit() fails with it.
    void fail_all(const Status& reason) noexcept;
    /// Frees the memory that only operations need. Call it after fail_all(), when no thread will drive progress any
    /// more.
    void release_memory();

    [[nodiscard]] const NegotiationMemory<Atomics>& memory() const { return memory_; }
    /// In a set on several hosts, the leaders look for stalled tensors.
    [[nodiscard]] bool is_led() const { return extent_.is_led(); }
    [[nodiscard]] std::optional<StallMonitor::Finding> take_finding() {
        return leader_ != nullptr ? leader_->take_finding() : std::nullopt;
    }
    /// This rank's number in the job.
    [[nodiscard]] int own_job_rank() const { return identity_.ranks[set_rank_]; }
    /// The members on other hosts, as ranks of the job.
    [[nodiscard]] std::vector<std::int32_t> ranks_elsewhere() const;
    /// The beginning of a message about this set: "" for the world.
    [[nodiscard]] std::string title() const { return identity_.is_world() ? "" : identity_.describe() + ": "; }
    /// Names and times of what is pending on this rank, for diagnostics. Takes the enqueue lock.
    struct PendingTensor {
        std::string name;
        std::int64_t submitted_ns = 0;
    };
    [[nodiscard]] std::vector<PendingTensor> pending_tensors();
    /// The tensors by which `completion` is still pending on this rank. Takes the enqueue lock; any thread.
    [[nodiscard]] std::vector<AwaitedTensor> awaited_by(const Completion& completion);

private:
    using PlaceFlags = Place<Atomics>::Flags;
    using Payloads = std::array<const std::byte*, kInlineMembers>;  ///< by member
    struct Waiting {
        Request request;
        Completion* completion;
        std::int64_t submitted_ns;
    };
    /// The ranks of the job that mean a group of this many members. Ranks on other hosts are not listed.
    using RanksOfCount = std::map<std::int64_t, std::vector<std::int32_t>>;

    [[nodiscard]] std::int32_t job_rank_of(std::uint32_t member) const { return view_.job_rank_of(member); }
    [[nodiscard]] std::uint64_t call_of_unnamed(std::uint32_t slot, std::uint64_t generation) const {
        return (generation - 1) * extent_.unnamed_slots + slot + 1;
    }

    // What can still be started, and how pending operations end: process_set.cpp.
    [[nodiscard]] Status check_open(std::string_view name) const;
    [[nodiscard]] Status shut_down_here() const noexcept;
    [[nodiscard]] Status shut_down_status(std::string_view name) const noexcept;
    void complete(TensorEntry& entry, const Status& status);
    /// For stall reports. Without a slot (kNoSlot + 1 is 0) there is no name to tell. Relaxed: read seconds later.
    void note_finished(const TensorEntry& entry) {
        memory_.cursor(rank_).finished.store(entry.generation << kFinishedSlotBits | (entry.slot + 1),
                                             std::memory_order_relaxed);
    }
    void forget_finished(std::uint32_t slot);
    void complete_and_forget(TensorEntry& entry, const Status& status);
    void fail_deferred(const Status& reason);
    void fail_pending(const Status& reason);
    void raise(ErrorCode code, std::string_view text) noexcept;

    // Announcing: announcing.cpp.
    [[nodiscard]] Status check_free(const TensorEntry& entry);
    /// Everything in a submit that may need memory runs before anything is pending, so a failure leaves nothing behind.
    template <class Submit>
    Status all_or_nothing(Submit&& submit) const {
        try {
            return submit();
        } catch (const std::bad_alloc&) {
            return no_memory_to_start_;
        }
    }
    void ask_for(TensorEntry& entry, const Request& request) const;
    void prefetch(const TensorEntry& entry) const;
    // From begin_pending() on nothing may throw, because the other ranks are about to see the announcement.
    void start(TensorEntry& entry, Completion& completion, Urgency urgency) noexcept;
    void begin_pending(TensorEntry& entry, Completion& completion) noexcept;
    void announce(TensorEntry& entry, Urgency urgency) noexcept;
    void count_arrival(TensorEntry& entry, bool changed, Urgency urgency);
    void announce_unnamed(const Request& request, Completion& completion, Urgency urgency);
    void start_unnamed(const Request& request, Completion& completion, Urgency urgency) noexcept;
    [[nodiscard]] TensorEntry& next_unnamed();
    [[nodiscard]] std::optional<ReadyCall<Atomics>> ready_call(const TensorEntry& entry, Urgency urgency) const;
    void after_counting(TensorEntry& entry, Counted counted, Urgency urgency);
    [[nodiscard]] bool signatures_agree(std::uint32_t slot, std::uint64_t generation) const;

    // Requests to the registrar: posting.cpp.
    void announce_in_full(TensorEntry& entry);
    bool try_post_full(TensorEntry& entry);
    void resolve(TensorEntry& entry);
    bool try_post_resolve(const TensorEntry& entry);
    MailboxRecord<Atomics>* next_record();
    [[nodiscard]] bool try_post_shutdown();
    void finish_post(const Result<std::uint64_t>& appended);
    bool retry_deferred();
    void tell_deferred();
    void tell_deferred_count();

    // Direct announcements: direct.cpp.
    [[nodiscard]] bool may_go_direct(const TensorEntry& entry, Urgency urgency) const;
    [[nodiscard]] bool others_may_go_direct(const TensorEntry& entry) const;
    void announce_directly(TensorEntry& entry, Place<Atomics>& place, Urgency urgency);
    DirectState turn_direct(std::uint64_t last_position = kNoLastPosition);
    void withdraw_direct(TensorEntry& entry);
    void finish_direct(TensorEntry& entry);
    [[nodiscard]] bool execute_direct(TensorEntry& entry);
    Status combine_direct(TensorEntry& entry);
    Status reduce_or_copy_direct(const TensorEntry& entry);
    using Locations = std::array<collectives::Location, kInlineMembers>;  ///< by member
    Status locate_payloads(const TensorEntry& entry, Locations& of) const;
    Status gather_direct(TensorEntry& entry);
    Status scatter_direct(TensorEntry& entry);
    Status exchange_direct(TensorEntry& entry);
    void note_use(const TensorEntry& entry);
    [[nodiscard]] bool direct_holds_retirement(std::uint64_t position, std::uint32_t slot);
    void pass_and_tell(std::uint64_t position);

    // Groups: groups.cpp.
    [[nodiscard]] bool fits_in_slots(std::size_t members) const;
    [[nodiscard]] Status too_many_members(std::string_view group, std::size_t members) const;
    [[nodiscard]] Status check_group(std::string_view group, std::size_t members, std::span<const std::string> names);
    [[nodiscard]] bool has_pending_members(const TensorEntry& entry);
    [[nodiscard]] bool holds_members_of(const TensorEntry& count) const;
    void announce_held(TensorEntry& count);
    void end_held(TensorEntry& count, const Status& status);
    Status settle_group(TensorEntry& entry, bool in_full);
    Status end_groups(TensorEntry& entry, const RanksOfCount& ranks_of, const Status& mismatch, bool in_full);
    void announce_for_others(std::int64_t count, const TensorEntry& entry);

    // Comparing what the ranks have: verify.cpp.
    struct Check;
    void inspect_input(TensorEntry& entry) noexcept;
    void inspect_again(TensorEntry& entry) const;
    [[nodiscard]] bool begin_check(TensorEntry& entry);
    [[nodiscard]] bool is_compared(collectives::Operation operation);
    [[nodiscard]] bool announce_check(TensorEntry& entry, std::int64_t verdict);
    [[nodiscard]] static std::string name_of_check_of(const TensorEntry& entry);
    [[nodiscard]] bool will_announce(std::string_view name);
    Status settle_check(TensorEntry& entry);
    void end_check(Check& check);
    [[nodiscard]] std::string name_for_people(const TensorEntry& entry) const;

    // Joining: join.cpp.
    [[nodiscard]] bool anybody_has_joined() const {
        // acquire: the last rank to announce an operation sees the members that joined and announced before it.
        return memory_.header().joined.load(std::memory_order_acquire) != 0;
    }
    static constexpr std::uint64_t kNeverLooked = ~std::uint64_t{0};
    [[nodiscard]] bool is_away() const;
    void tell_joined(const TensorEntry& entry);
    void tell_joined_of_posts();
    void wake_joined(std::uint64_t joined);
    bool turn_join();
    [[nodiscard]] bool may_join() const;
    void become_joined();
    bool stand_in_for_new(bool look_at_places);
    bool stand_in_for_unnamed();
    bool stand_in_for_slot(std::uint32_t slot, bool look_at_places);
    bool stand_in_for_new_name(std::uint32_t slot);
    bool stand_in_for_direct();
    [[nodiscard]] bool was_announced(const TensorEntry& entry, bool look_at_places) const;
    [[nodiscard]] bool was_announced_by(const TensorEntry& entry, std::uint32_t member) const;
    void stand_in(TensorEntry& entry, bool asked_for = false);
    [[nodiscard]] bool has_nothing_pending();
    bool settle();
    Status take_called(TensorEntry& entry, std::uint32_t slot, std::uint64_t generation) const;
    void handle_lacks_joined(std::uint32_t slot, std::uint32_t attachment);
    void handle_wanted(std::uint32_t slot, std::uint32_t attachment);
    void stand_in_for_calls(std::uint64_t last);
    void handle_all_joined(std::uint32_t last);
    void end_join(const Status& status);

    // Progress: progress.cpp.
    Turn take_turn(bool urgent, bool asks_others);
    Turn turn_task();
    Turn take_log_turn(bool urgent);
    Turn handle_entry(std::uint64_t position);
    void advance_to(std::uint64_t position);

    // What is called: executing.cpp.
    Turn start_batch(std::uint64_t position, bool urgent);
    bool run_inline(std::uint64_t position);
    void reduce_payloads(const Request& request, const Payloads& payloads, std::byte* output,
                         std::uint64_t count) const;
    Turn run_batch(std::uint64_t begin, std::uint64_t end);
    [[nodiscard]] Status add_to_batch(std::uint64_t position);
    [[nodiscard]] TensorEntry* called_entry(const Log<Atomics>::Entry& called);
    [[nodiscard]] TensorEntry* entry_of_slot(std::uint32_t slot);
    Status settle_numbers(TensorEntry& entry, EntryKind kind);
    void start_task();
    void take_splits();
    void finish_batch();

    // Entries of the log that call nothing: log_answers.cpp.
    void handle_mismatch(std::uint32_t slot);
    [[nodiscard]] Status refusal_or_mismatch(std::string_view name, std::uint64_t call,
                                             std::vector<MetadataOfRanks> by_rank) const;
    [[nodiscard]] RanksOfCount groups_among(std::uint32_t slot, std::uint64_t generation,
                                            std::span<const MetadataOfRanks> by_rank) const;
    void handle_disagreement(std::uint32_t slot, std::uint32_t attachment, ErrorCode code);
    [[nodiscard]] std::string text_of_attachment(std::uint32_t attachment) const;
    [[nodiscard]] RanksOfCount groups_of_attachment(std::uint32_t attachment) const;
    void end_disagreed(TensorEntry& entry, std::uint32_t slot, const Status& status, const RanksOfCount& groups = {});
    void handle_failed(std::uint32_t slot);
    [[nodiscard]] Status shut_down_unnamed(const TensorEntry& entry) const noexcept;
    [[nodiscard]] std::string about_unnamed(const TensorEntry& entry) const;
    void handle_retire(std::uint32_t slot);
    void handle_refused(const Log<Atomics>::Entry& answer);
    [[nodiscard]] Status exhausted_status(std::string_view name, std::uint64_t slots) const;

    // Communication with other hosts: other_hosts.cpp.
    bool turn_leader();
    void turn_transport();
    void retry_numbers_later();
    void raise_network_failure(const Status& failure);

    SetIdentity identity_;
    std::function<Status(const Status&)> explain_;  // may be empty
    std::shared_ptr<collectives::Arena> arena_;
    NegotiationExtent extent_;
    NegotiationMemory<Atomics> memory_;
    Log<Atomics> log_;
    Registrar<Atomics> registrar_;
    std::uint32_t rank_;  // position among the members on this host
    std::uint32_t set_rank_;
    std::uint32_t set_size_;
    SetView view_;
    AnnouncementWriter writer_;
    Announced announced_;
    RowOutputs outputs_;
    Waking waking_;
    std::unique_ptr<collectives::HostCommunicator> host_communicator_;
    std::unique_ptr<collectives::HierarchicalCommunicator> hierarchical_communicator_;  // only one of the two is set
    const collectives::LocalGroup* group_ = nullptr;                                    // only with several hosts
    collectives::Transport* transport_ = nullptr;                                       // to other hosts
    std::unique_ptr<Leader> leader_;  // only on the leaders of a set on several hosts
    std::uint64_t fusion_threshold_bytes_;
    std::int64_t hold_ns_;
    base::CompressionRules compression_rules_;
    collectives::NumaNodes nodes_;
    // Created while there is memory for them.
    std::uint32_t verify_;  // RUEDA_VERIFY
    bool check_nan_;
    bool checks_;  // whether one of the two is on
    std::uint64_t allreduces_called_ = 0;
    std::string first_difference_;  // the first tensor whose results differed
    Status no_memory_to_start_;
    Status no_memory_to_say_who_;
    std::string no_memory_to_go_on_;

    std::mutex enqueue_mutex_;
    TensorTable table_;
    EntryQueue unposted_;                  // full announcements for which the mailbox had no room
    EntryQueue unposted_resolves_;         // the same, for entries whose generation is complete
    std::deque<Waiting> unnamed_waiting_;  // operations whose slot is still pending
    std::uint64_t unnamed_calls_ = 0;
    bool shut_down_posted_ = false;  // or waits for room in the mailbox: `shut_down_announced_`
    bool joining_ = false;           // from announce_join() to its end
    bool join_is_counted_ = true;
    bool has_joined_ = false;  // the other members know it
    bool has_settled_ = false;
    Completion* join_ = nullptr;
    std::uint64_t announced_seen_ = 0;        // SetHeader::announced at the last look for new announcements
    std::uint64_t looked_at_ = kNeverLooked;  // the log position at that look
    std::optional<Status> failed_;

    std::atomic<std::uint32_t>& pending_;
    std::atomic<bool> closed_{false};
    std::atomic<bool> shut_down_announced_{false};  // written under the enqueue lock; waiting threads read it
    std::atomic<bool> joins_{false};                // `joining_`, for the thread that drives progress
    std::atomic<bool> joins_soon_{false};           // `joins_`, and this rank has not looked for new announcements yet
    std::atomic<bool> deferred_{false};  // one of the three queues above is not empty, or the registrar waits
    // The operation that was announced directly, one at a time. The announcing thread writes it under the enqueue lock.
    // The thread that drives progress reads it, and removes it before it completes the operation. seq_cst:
    // announce_directly().
    std::atomic<TensorEntry*> direct_{nullptr};

    // The thread that drives progress owns these members. Announcing threads read `next_` as a hint.
    std::atomic<std::uint64_t> next_{0};
    // announced directly by the thread that drives progress, and not counted among pending() yet
    TensorEntry* at_once_ = nullptr;
    /// After sending something, this rank polls its messages often until this time. Later it polls only when it drives
    /// progress anyway.
    std::atomic<std::int64_t> sending_until_ns_{0};
    collectives::Task* task_ = nullptr;
    std::uint64_t task_end_ = 0;
    std::uint64_t open_since_position_ = ~std::uint64_t{0};
    std::uint64_t closing_at_ = kNoLastPosition;             // the log position of the first shutdown
    std::uint64_t rung_for_retirement_ = ~std::uint64_t{0};  // a log position; see direct_holds_retirement()
    std::int64_t hold_until_ns_ = 0;
    CalledBatch batch_;
    // the task exchanges the splits of an operation on several hosts; its data comes later
    bool task_is_splits_ = false;
    std::vector<std::int64_t> direct_splits_;  // the splits of a direct announcement
};

}  // namespace rueda::core
