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

/// Drives the process sets of a rank, on whatever thread is available. The thread that holds the progress lock drives
/// progress. This is a thread that blocks in wait() if there is one, otherwise the background thread. The background
/// thread also watches the other ranks and looks for stalls a few times per second; otherwise it sleeps.
///
/// Threads: run(), wait(), poll() and attend() by any thread; the other functions by the owner. No thread waits for the
/// progress lock while it holds another lock.
class Engine {
public:
    /// `cores` is the number of cores that the ranks of this host have together. `messenger` must outlive this object.
    /// For `pending` see ProcessSet. `host` is this host's name if the job has several hosts. `launcher` may be null;
    /// otherwise it must outlive this object.
    Engine(const base::Config& config, std::shared_ptr<collectives::Arena> arena, std::shared_ptr<ProcessSet> world,
           Messenger& messenger, const std::atomic<std::uint32_t>& pending, base::Logger logger, double cores,
           std::string host, LauncherLine* launcher, std::function<void()> quarantine);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Starts the background thread. All members must have attached.
    Status start();
    /// From now on this rank answers questions for its stack, and prints the stacks of its host when the stack signal
    /// comes. The handler is installed (stack_signal.hpp).
    void offer_stacks();
    /// Tells the other ranks why this rank cannot answer such questions.
    void refuse_stacks(std::string_view reason);
    /// Ends the background thread. No operation may be pending any more, unless the job was aborted.
    void stop();

    /// Waits until `completion` is done. Meanwhile it drives progress, or waits for the thread that does. If
    /// `timeout_seconds` have passed (negative: no limit), it returns Timeout, and the operation is not affected.
    Status wait(const Completion& completion, double timeout_seconds);
    /// Describes what the operation of `completion` waits for. Any thread. This function does not take the progress
    /// lock, so it does not wait for the thread that drives progress.
    [[nodiscard]] WaitReport account_of(const Completion& completion) const;
    /// Submits an operation to the set and waits until it is done. Meanwhile it drives progress, or waits for the
    /// thread that does. `submit` is called with the urgency that it should use.
    template <class Submit>
    Status run(ProcessSet& set, Submit&& submit, const Completion& completion) {
        Lock::Held held(lock_);
        if (!held) {
            RUEDA_RETURN_IF_FAILED(submit(Urgency::blocking));
            return wait(completion, -1);
        }
        Status submitted = submit(Urgency::driving);
        const bool finished = submitted.is_ok() && finish_or_drive(set, completion);
        held.leave();
        return submitted.is_ok() && (!finished || completion.done()) ? completion.status() : submitted;
    }
    /// Starts a send or a receive. Fails like Messenger::submit().
    Status start(MessageRequest request, Completion& completion);
    /// Starts a send or a receive and waits until it is done, like run().
    Status run(MessageRequest request, Completion& completion);
    /// Call this after a submit without a wait. It ensures that some thread will be woken for the operation.
    void attend();
    /// For a caller that polls: does the work that can be done at once, for about a millisecond at most. Repeated calls
    /// wake no thread if there is no new work to hand to it.
    void poll();
    /// Announces that this rank will announce no more operations in the set. Waits until this message is in the mailbox
    /// or the job was aborted. From now on the set's stall report counts this rank among those that wait for the set's
    /// end, in `call`. Timeout is as in wait(); then the message is sent later.
    Status announce_shutdown(ProcessSet& set, EndCall call, double timeout_seconds = -1);
    /// Waits until all members of all sets, or of this set, have shut down. Also ends if the job was aborted and
    /// everything pending has failed. Timeout is as in wait().
    Status wait_until_closed(double timeout_seconds);
    Status wait_until_closed(ProcessSet& set);

    /// Ends the sends and receives of this rank. Called because this rank shuts down.
    void end_messages();

    /// Adds a set: when this function returns, the engine drives and watches the set. `arena` is the set's arena, and
    /// has joined the job's arena.
    void add(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena);
    /// Removes a set: when this function returns, the engine no longer drives the set, and operations that were pending
    /// in it have failed with `reason`.
    void remove(ProcessSet& set, const Status& reason);

    /// Fails everything pending, and every later submit, with `reason`. Call this after wait_until_closed(). Waits for
    /// the progress lock; a thread that holds it releases it soon, because it has nothing left to wait for.
    void end_pending(const Status& reason);
    /// Like end_pending(), but from then on no thread gets the progress lock any more. So no thread uses the data that
    /// only the holder of the lock may use.
    void end_for_good(const Status& reason);
    /// Call this after end_for_good(). It frees what the sets need only for operations, and the arenas of all sets
    /// except the world.
    void release_memory() { sets_.release_memory(); }

    [[nodiscard]] bool aborted() const { return control_.abort.raised(); }
    /// After everything pending has failed: the error with which it failed. The error includes the state of resident
    /// memory.
    [[nodiscard]] Status abort_reason() const;
    /// Ends the job for all ranks of this host. If several ranks do so, the first reason is used.
    void raise(ErrorCode code, std::string_view text) noexcept;

private:
    using Clock = std::chrono::steady_clock;

    // The functions that the progress lock calls on its Work.
    friend class ProgressLock<base::StdAtomics, Engine>;
    using Lock = ProgressLock<base::StdAtomics, Engine>;
    [[nodiscard]] std::uint32_t pending() const { return pending_.load(std::memory_order_seq_cst); }
    [[nodiscard]] bool has_work() const {
        return sets_.has_work() || messenger_.has_work() || messenger_.has_to_poll() || aborted();
    }
    [[nodiscard]] bool has_unread() const { return sets_.anybody_has_unread(); }
    [[nodiscard]] bool holder_has_unread() const { return sets_.has_unread(); }
    [[nodiscard]] bool is_stopping() const { return stopping_.load(std::memory_order_seq_cst); }

    void fail_pending(const Status& reason) noexcept;
    /// Says how a waiting thread drives progress.
    enum class Haste : std::uint8_t {
        urgent,  ///< the thread closes open batches, because it waits for an operation in them
        /// A rank in join() takes part in the operations of other ranks, and waits for nothing of its own. It leaves
        /// the batches of other ranks open as long as the background thread would. While no operation makes progress,
        /// it leaves driving to the background thread. If it slept as a caller, it would be woken for every tensor that
        /// other ranks announce.
        none,
    };
    template <class Done>
    void drive(Done&& done, Deadline deadline, Haste haste = Haste::urgent);
    [[nodiscard]] bool finish_or_drive(ProcessSet& set, const Completion& completion) noexcept;
    template <class Done>
    Status wait_for(Done&& done, double timeout_seconds, Haste haste = Haste::urgent);
    [[nodiscard]] Turn turn(bool urgent, bool asks_others = true) noexcept;
    void end_job_of_failure(ErrorCode code, std::string_view text) noexcept;
    [[nodiscard]] bool has_to_poll(Turn last) const {
        return last == Turn::polling || sets_.has_to_poll() || messenger_.has_to_poll();
    }
    [[nodiscard]] Turn turn_messages(bool somebody_waits, bool asks_others) noexcept;
    [[nodiscard]] std::chrono::nanoseconds next_poll();
    void explain_failures_of(ProcessSet& set);
    void change(std::function<void()> make);
    void make_changes();
    void ring_everybody() noexcept;
    void fail_after_abort() noexcept;
    void leave_batches() noexcept;
    [[nodiscard]] bool may_write(std::uint32_t member) const;
    template <class Done>
    void wait_for_progress_lock(Done&& done, Deadline deadline);
    template <class Done>
    void sleep_as_caller(Turn last, Done&& done, Deadline deadline);
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
    [[nodiscard]] std::string cause_of(const Liveness::Death& death) const;
    [[nodiscard]] Status explain(const Status& failure) const;
    void write_recorders(std::string_view reason, bool at_end) noexcept;
    void warn_about_files(const std::optional<std::string>& complaint) noexcept;
    void mark_dead(std::uint32_t member);
    void mark_the_dead();
    void end_job(const std::string& reason);

    base::ControlBlock& control_;
    std::shared_ptr<collectives::Arena> arena_;
    base::RankBlock& block_;
    base::StackBlock& stack_block_;
    std::uint32_t members_;  // of the host
    StallSettings stall_settings_;
    SetList sets_;
    Messenger& messenger_;
    MessageWatch message_watch_;
    FileWriter files_;
    StallFile stall_file_;
    StackResponder stack_responder_;
    RequestedStacks requested_stacks_;
    std::atomic<bool> offers_stacks_{false};  // release by offer_stacks(), acquire by the background thread
    const std::atomic<std::uint32_t>& pending_;
    std::mutex changes_mutex_;  // no other lock is taken while this one is held
    std::vector<std::function<void()>> changes_;
    // seq_cst: change() stores this and then wakes threads. A thread that goes to sleep reads this first.
    std::atomic<bool> has_changes_{false};
    base::Logger logger_;
    std::function<void()> quarantine_;
    WaitPolicy caller_policy_;
    WaitPolicy background_policy_;
    bool short_of_cores_;  // polling without pauses would keep the kernel from transferring what this rank waits for
    std::chrono::nanoseconds look_again_;  // Config::look_again_seconds
    std::chrono::nanoseconds liveness_interval_;
    std::chrono::nanoseconds abort_grace_;

    Liveness liveness_;
    RecorderFiles recorder_files_;
    LauncherLine* launcher_;
    std::int64_t next_look_ns_ = 0;
    // Since when no operation has made progress; 0: an operation has just made progress. Used only by the holder of the
    // progress lock.
    std::int64_t still_since_ns_ = 0;

    Lock lock_;
    /// The number of callers in join(), which block but are in no hurry. Relaxed: after a caller was counted, it looks
    /// at the messages itself, with the progress lock.
    std::atomic<std::uint32_t> joining_{0};
    // Everything pending has failed after an abort. Written only by the holder of the progress lock.
    std::atomic<bool> failed_{false};
    Status failed_with_;  // written once, before failed_
    // Allocated in advance, so that an abort is reported even if no memory is left.
    PreparedFailure room_for_reason_;   // for the reason as it was raised
    PreparedFailure room_for_failure_;  // for the reason with additions: failed_with_
    std::string no_memory_to_go_on_;
    std::atomic<bool> stopping_{false};
    std::thread background_;
};

}  // namespace rueda::core
