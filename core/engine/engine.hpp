// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/settings/config.hpp"
#include "base/system/logging.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/wakeups.hpp"
#include "core/diagnostics/files/file_writer.hpp"
#include "core/diagnostics/files/stall_file.hpp"
#include "core/diagnostics/launcher_line.hpp"
#include "core/diagnostics/liveness.hpp"
#include "core/diagnostics/message_watch.hpp"
#include "core/diagnostics/stacks/requested_stacks.hpp"
#include "core/diagnostics/stacks/stack_responder.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/engine/backoff.hpp"
#include "core/engine/deadline.hpp"
#include "core/engine/progress_lock.hpp"
#include "core/engine/set_list.hpp"
#include "core/messages/messenger.hpp"
#include "core/process_set/process_set.hpp"
#include "core/recording/recorder_files.hpp"

namespace rueda::core {

/// Drives the process sets of a rank. The thread that holds the progress lock drives progress, in *turns*: in a turn,
/// this thread does the work that is possible now, without waiting. While a thread of the program blocks in wait(),
/// that thread holds the lock. At all other times the background thread takes the lock. A few times per second, the
/// background thread also checks whether other ranks have died or operations have stalled. The rest of the time the
/// background thread sleeps.
///
/// Threads: run(), start(), wait(), poll() and attend() run in any thread; the other functions only in the owner's
/// thread. No thread waits for the progress lock while it holds another lock.
class Engine {
public:
    /// `cores` is the number of cores that the ranks of this host have together. For `pending`, see ProcessSet. `host`
    /// is this host's name, or "" in a job on one host. `calls_mpi` is true if driving progress calls MPI. `wakeups` is
    /// null if no message of another host can wake this rank. `launcher` may be null. `messenger`, `launcher` and
    /// `wakeups` must outlive this object.
    Engine(const base::Config& config, std::shared_ptr<collectives::Arena> arena, std::shared_ptr<ProcessSet> world,
           Messenger& messenger, const std::atomic<std::uint32_t>& pending, base::Logger logger, double cores,
           std::string host, bool calls_mpi, LauncherLine* launcher, std::function<void()> quarantine,
           collectives::Wakeups* wakeups = nullptr);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Starts the background thread. All ranks of the host must have attached to the arena.
    Status start();
    /// Lets other ranks request this rank's stack. When the stack signal comes, this rank prints the stacks of its
    /// host. The signal's handler must be installed (stack_signal.hpp).
    void offer_stacks();
    /// Lets other ranks read why this rank cannot give its stack.
    void refuse_stacks(std::string_view reason);
    /// Ends the background thread. Unless the job was aborted, no operation may be pending.
    void stop();

    /// Waits until `completion` is done. Meanwhile the thread drives progress, or waits for the thread that does.
    /// Returns Timeout after `timeout_seconds` (a negative number means no limit). In that case the operation
    /// continues.
    Status wait(const Completion& completion, double timeout_seconds);
    /// Like wait(), but for an operation on a device: waits only until all work of the operation was given to the
    /// device.
    Status wait_until_launched(const Completion& completion, double timeout_seconds);
    /// Describes what the operation of `completion` waits for. Any thread. Does not take the progress lock, so the
    /// caller need not wait for the thread that drives progress.
    [[nodiscard]] WaitReport account_of(const Completion& completion) const;
    /// Submits an operation and waits until it is done. Meanwhile the thread drives progress, or waits for the thread
    /// that does. `submit` is a function that submits the operation with the urgency that it gets as its argument.
    template <class Submit>
    Status run(ProcessSet& set, Submit&& submit, const Completion& completion) {
        Lock::Held held(lock_);
        if (!held) {
            RUEDA_RETURN_IF_FAILED(submit(Urgency::blocking));
            return wait(completion, -1);
        }
        Status submitted = submit(Urgency::driving);
        const bool finished = submitted.is_ok() && finish_or_drive(set, completion, -1);
        held.leave();
        return submitted.is_ok() && (!finished || completion.done()) ? completion.status() : submitted;
    }
    /// Submits an operation, and waits for at most `seconds` until it is done, like run(). If `seconds` is 0 or less,
    /// does not wait, and leaves the operation to the thread that drives progress. Returns the errors of `submit`.
    template <class Submit>
    Status start(ProcessSet& set, Submit&& submit, Completion& completion, double seconds) {
        if (!(seconds > 0)) {
            RUEDA_RETURN_IF_FAILED(submit(Urgency::background));
            attend();
            return {};
        }
        if (Lock::Held held(lock_); held) {
            RUEDA_RETURN_IF_FAILED(submit(Urgency::leaving));
            static_cast<void>(finish_or_drive(set, completion, seconds));
        } else {
            RUEDA_RETURN_IF_FAILED(submit(Urgency::leaving));
            try {
                static_cast<void>(wait(completion, seconds));
            } catch (const std::bad_alloc&) {  // the text of the timeout is not needed, and the operation goes on
            }
        }
        if (!completion.done()) {
            attend();
        }
        return {};
    }
    /// Starts a send or a receive. Returns the errors of Messenger::submit().
    Status start(MessageRequest request, Completion& completion);
    /// Starts a send or a receive, and waits until it is done. If the send or receive ends at once, `completion` is not
    /// marked as done: only its sender is stored.
    Status run(MessageRequest request, Completion& completion);
    /// How long threads of the program were blocked in wait(), wait_until_launched(), run() and start(), summed over
    /// the threads. Operations, sends and receives that end within the first microseconds of run() are not counted,
    /// because reading the clock would slow them down. Any thread.
    [[nodiscard]] std::int64_t blocked_ns() const { return blocked_ns_.load(std::memory_order_relaxed); }
    /// Makes sure that a thread will drive the operations that were submitted. Call this after a submit without a wait.
    void attend();
    /// For a caller that polls: does the work that is possible now, for about a millisecond at most. Wakes another
    /// thread only if there is new work for that thread.
    void poll();
    /// Announces that this rank will announce no more operations in the set. Waits until the announcement is in the
    /// mailbox or the job has ended. Returns Timeout after `timeout_seconds` (a negative number means no limit). In
    /// that case, a later turn of the engine posts the announcement. After this call, a stall report says that this
    /// rank waits in `call` for the end of the set.
    Status announce_shutdown(ProcessSet& set, EndCall call, double timeout_seconds = -1);
    /// Waits until all members of all sets have shut down. Also returns if the job was aborted and everything pending
    /// has failed. Returns Timeout after `timeout_seconds` (a negative number means no limit).
    Status wait_until_closed(double timeout_seconds);
    /// Waits until all members of `set` have shut down, or until everything pending has failed after an abort.
    Status wait_until_closed(ProcessSet& set);

    /// Ends the sends and receives of this rank, because the rank shuts down.
    void end_messages();

    /// Adds a set. When this function returns, the engine drives and watches the set. `arena` is the set's arena, and
    /// must be joined to the job's arena.
    void add(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena);
    /// Removes a set. When this function returns, the engine no longer drives the set, and the set's pending operations
    /// have failed with `reason`.
    void remove(ProcessSet& set, const Status& reason);

    /// Fails every pending operation and every later submit with `reason`. Call this after wait_until_closed(). Takes
    /// the progress lock. This is quick, because no operation is pending and so no thread holds the lock for long.
    void end_pending(const Status& reason);
    /// Like end_pending(), but never releases the progress lock. So no other thread can use the data that the lock
    /// protects any more.
    void end_for_good(const Status& reason);
    /// Frees the memory that the sets need for operations, and the arenas of all sets except the world's. Call this
    /// after end_for_good().
    void release_memory() { sets_.release_memory(); }

    [[nodiscard]] bool aborted() const { return control_.abort.raised(); }
    /// The error with which everything pending failed after an abort. If a rank may still write into resident memory,
    /// the error says so.
    [[nodiscard]] Status abort_reason() const;
    /// Aborts the job for all ranks of this host. If several ranks call this, all of them report the reason of the
    /// first call.
    void raise(ErrorCode code, std::string_view text) noexcept;

private:
    using Clock = std::chrono::steady_clock;

    // The progress lock calls the following functions. This class is its template parameter Work.
    friend class ProgressLock<base::StdAtomics, Engine>;
    using Lock = ProgressLock<base::StdAtomics, Engine>;
    [[nodiscard]] std::uint32_t pending() const { return pending_.load(std::memory_order_seq_cst); }
    // ProgressLock calls has_work() or holder_has_unread() after it has stored the attention state, and before the lock
    // is released. Both functions switch the wake-ups by other hosts on: a message that another host sends later wakes
    // this rank. A message that was received already, but not handled, counts as work.
    [[nodiscard]] bool has_work() const {
        arm_wakeups();
        return sets_.has_work() || messenger_.has_work() || messenger_.has_to_poll() || aborted() ||
               has_unhandled_message();
    }
    [[nodiscard]] bool has_unread() const { return sets_.anybody_has_unread(); }
    [[nodiscard]] bool holder_has_unread() const {
        arm_wakeups();
        return sets_.has_unread() || has_unhandled_message();
    }
    [[nodiscard]] bool has_unhandled_message() const { return wakeups_ != nullptr && wakeups_->has_arrived(); }
    [[nodiscard]] bool is_stopping() const { return stopping_.load(std::memory_order_seq_cst); }

    void fail_pending(const Status& reason) noexcept;
    /// How a waiting thread drives progress.
    enum class Haste : std::uint8_t {
        urgent,  ///< the thread closes open batches (which may still grow) at once, because it waits for an operation
        /// For a caller in join(), which only takes part in the operations of other ranks. Such a caller keeps batches
        /// open as long as the background thread would. The caller drives progress only while operations make progress.
        /// After that, the background thread drives progress, because otherwise every announcement of another rank
        /// would wake the caller.
        none,
    };
    template <class Done>
    void drive(Done&& done, Deadline deadline, Haste haste = Haste::urgent);
    [[nodiscard]] bool finish_or_drive(ProcessSet& set, const Completion& completion, double seconds) noexcept;
    template <class Done>
    Status wait_for(Done&& done, double timeout_seconds, Haste haste = Haste::urgent);
    [[nodiscard]] Turn turn(bool urgent, bool asks_others = true) noexcept;
    void end_job_of_failure(ErrorCode code, std::string_view text) noexcept;
    [[nodiscard]] bool has_to_poll(Turn last) const {
        return last == Turn::polling || sets_.has_to_poll() || messenger_.has_to_poll();
    }
    [[nodiscard]] Turn arm_before_sleep(Turn turn);
    void arm_wakeups() const {
        if (wakeups_ != nullptr) {
            wakeups_->arm_soon();
        }
    }
    [[nodiscard]] std::chrono::nanoseconds no_longer_than_leader(std::chrono::nanoseconds timeout) const;
    [[nodiscard]] std::chrono::nanoseconds longest_background_sleep() const;
    [[nodiscard]] Turn turn_messages(bool somebody_waits, bool asks_others) noexcept;
    template <class Work>
    auto or_end_job(Work&& work) noexcept -> std::optional<std::decay_t<decltype(work().value())>>;
    [[nodiscard]] std::chrono::nanoseconds next_poll();
    void explain_failures_of(ProcessSet& set);
    void change(std::function<void()> make);
    void pass_on_question_for_turn();
    void queue_change(std::function<void()> make);
    void make_changes();
    void ring_everybody() noexcept;
    void fail_after_abort() noexcept;
    void leave_batches() noexcept;
    [[nodiscard]] bool may_write(std::uint32_t member) const;
    template <class Done>
    void wait_for_progress_lock(Done&& done, Deadline deadline);
    template <class Done>
    [[nodiscard]] bool sleep_as_caller(Turn last, Done&& done, Deadline deadline);
    void note_blocked_since(std::int64_t began_ns) noexcept;
    [[nodiscard]] Status ended_or_timed_out(const Completion& completion, double seconds) const;
    template <class Done>
    void await_movement(Done&& done, Deadline deadline);

    void run_background() noexcept;
    void background_turns() noexcept;
    void sleep_in_background(Turn last) noexcept;
    void look_after_others() noexcept;
    void look(std::int64_t now);
    void look_at_stacks(std::int64_t now);
    void tell(const SetList::Finding& finding) noexcept;
    void handle_report(const SetList::Finding& finding);
    void write_file(const SetList::Finding& finding);
    void look_after_others_in_time() noexcept;
    void report_death(const Liveness::Death& death);
    [[nodiscard]] std::optional<std::string> launcher_cause(std::int64_t now);
    [[nodiscard]] Status explain(const Status& failure) const;
    void write_recorders(std::string_view reason, bool at_end) noexcept;
    void warn_about_files(const std::optional<std::string>& complaint) noexcept;
    void mark_dead(std::uint32_t member);
    void mark_the_dead();
    void end_job(const std::string& reason);

    base::ControlBlock& control_;
    // Whether driving progress calls MPI. MPI writes to connections with other hosts without MSG_NOSIGNAL, so a broken
    // connection raises SIGPIPE. Therefore a thread of the program blocks SIGPIPE while it drives progress. Otherwise
    // the failure of a rank on another host could end this process.
    bool calls_mpi_;
    std::shared_ptr<collectives::Arena> arena_;
    base::RankBlock& block_;
    base::StackBlock& stack_block_;
    std::uint32_t members_;  // the number of ranks on this host
    StallSettings stall_settings_;
    SetList sets_;
    Messenger& messenger_;
    MessageWatch message_watch_;
    FileWriter files_;
    StallFile stall_file_;
    StackResponder stack_responder_;
    RequestedStacks requested_stacks_;
    // offer_stacks() stores it with release; the background thread loads it with acquire
    std::atomic<bool> offers_stacks_{false};
    const std::atomic<std::uint32_t>& pending_;
    std::mutex changes_mutex_;  // protects the queued changes; a thread that holds this mutex takes no other lock
    std::vector<std::function<void()>> changes_;
    // Whether `changes_` has elements. Accesses are seq_cst: change() first sets this flag, and then wakes the driving
    // thread. A thread that is about to sleep first marks itself as asleep, and then reads this flag. So no change is
    // overlooked.
    std::atomic<bool> has_changes_{false};
    base::Logger logger_;
    std::function<void()> quarantine_;
    WaitPolicy caller_policy_;
    WaitPolicy background_policy_;
    // True if there are fewer cores than ranks. Polling without pauses would then keep the kernel from receiving
    // network data.
    bool short_of_cores_;
    std::chrono::nanoseconds look_again_;  // Config::look_again_seconds
    collectives::Wakeups* wakeups_;        // may be null
    std::chrono::nanoseconds leader_interval_;
    std::chrono::nanoseconds liveness_interval_;
    std::chrono::nanoseconds abort_grace_;

    Liveness liveness_;
    RecorderFiles recorder_files_;
    LauncherLine* launcher_;
    std::int64_t next_look_ns_ = 0;
    // The time since which no operation has made progress; 0 if the last turn made progress. Only for the holder of the
    // progress lock.
    std::int64_t still_since_ns_ = 0;

    Lock lock_;
    /// The number of callers in join(). Accesses can be relaxed, because a caller that has just counted itself also
    /// runs the next turn of the engine, under the progress lock.
    std::atomic<std::uint32_t> joining_{0};
    std::atomic<std::int64_t> blocked_ns_{0};  // accesses are relaxed, because no other data depend on this number
    // Whether everything pending has failed after an abort. Only the holder of the progress lock writes this.
    std::atomic<bool> failed_{false};
    Status failed_with_;  // written once, before failed_
    // The memory of the next two fields is allocated in advance, because an abort must be reported even if memory has
    // run out.
    PreparedFailure room_for_reason_;   // the text of the reason
    PreparedFailure room_for_failure_;  // the text of failed_with_: the reason, and one more sentence if another rank
                                        // may still write
    std::string no_memory_to_go_on_;
    std::atomic<bool> stopping_{false};
    std::thread background_;
};

}  // namespace rueda::core
