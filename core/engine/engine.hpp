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
#include <utility>
#include <vector>

#include "base/settings/config.hpp"
#include "base/shared_memory/local_event.hpp"
#include "base/system/logging.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/diagnostics/launcher_line.hpp"
#include "core/diagnostics/liveness.hpp"
#include "core/diagnostics/message_watch.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/engine/backoff.hpp"
#include "core/engine/deadline.hpp"
#include "core/engine/progress_lock.hpp"
#include "core/engine/set_list.hpp"
#include "core/messages/messenger.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

/// Steps the process sets of a rank, on whatever thread is at hand. Whoever holds the progress lock drives: a thread
/// blocked in wait() if there is one, else the background thread. The background thread also looks after the others'
/// lives and after stalls, a few times per second, and sleeps otherwise.
///
/// Threads: run(), wait(), poll() and attend() by any; the rest by the owner. No thread waits for the progress lock
/// while it holds another lock.
class Engine {
public:
    /// `cores`: that the ranks of this host have together.
    /// `messenger` outlives this. `pending`: see ProcessSet. `host`: its name, where the job has several. `launcher`
    /// may be null; it outlives this.
    Engine(const base::Config& config, std::shared_ptr<collectives::Arena> arena, std::shared_ptr<ProcessSet> world,
           Messenger& messenger, const std::atomic<std::uint32_t>& pending, base::Logger logger, double cores,
           std::string host, LauncherLine* launcher, std::function<void()> quarantine);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Starts the background thread. All members have attached.
    Status start();
    /// Ends it. Nothing is pending any more, or the job was aborted.
    void stop();

    /// Drives the engine, or waits for who does, until `completion` is done. Timeout: `timeout_seconds` have passed
    /// (negative: none), and nothing else has changed.
    Status wait(const Completion& completion, double timeout_seconds);
    /// What the operation of `completion` waits for. Any thread; it takes no progress lock, so it waits for nobody who
    /// drives.
    [[nodiscard]] WaitReport account_of(const Completion& completion) const;
    /// Submits an operation to the set and drives the engine, or waits for who does, until it is done. `submit` is
    /// called with the urgency that it should have.
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
    /// Starts a send or a receive. Refusals as Messenger::submit().
    Status start(MessageRequest request, Completion& completion);
    /// Starts it, and drives the engine, or waits for who does, until it is done.
    Status run(MessageRequest request, Completion& completion);
    /// After a submit without a wait: makes sure that somebody will be woken for it.
    void attend();
    /// Does what can be done at once, for about a millisecond at most, for a caller that only looks. In a loop it rings
    /// nobody while there is nothing new to hand on.
    void poll();
    /// Says that this rank will announce nothing more in the set, and waits until there is room for that, or the job
    /// was aborted. From the beginning on the set's stall report counts this rank among those that wait for its end, in
    /// `call`. Timeout: as wait(); it is announced later all the same.
    Status announce_shutdown(ProcessSet& set, EndCall call, double timeout_seconds = -1);
    /// Waits until all members of all sets, or of this one, have shut down, or the job was aborted and everything
    /// pending was failed. Timeout: as wait().
    Status wait_until_closed(double timeout_seconds);
    Status wait_until_closed(ProcessSet& set);

    /// Ends the sends and receives of this rank: it shuts down.
    void end_messages();

    /// From the return on, a further set is attended to. `arena` is the set's, and has joined the job's.
    void add(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena);
    /// From the return on, a set is not attended to any more; what was pending in it has failed with `reason`.
    void remove(ProcessSet& set, const Status& reason);

    /// Ends everything pending, and every later submit, with `reason`. After wait_until_closed(): whoever has the
    /// progress lock gives it up at once.
    void end_pending(const Status& reason);
    /// The same, and nobody gets the progress lock any more: what only its holder touches is nobody's from the return
    /// on.
    void end_for_good(const Status& reason);
    /// After that: gives back what the sets need for operations only, with the arenas of those beside the world.
    void release_memory() { sets_.release_memory(); }

    [[nodiscard]] bool aborted() const { return control_.abort.raised(); }
    /// Once everything pending was failed: with what it was failed, the state of resident memory included.
    [[nodiscard]] Status abort_reason() const;
    /// Ends the job for all ranks of the host; the first reason wins.
    void raise(ErrorCode code, std::string_view text) noexcept;

private:
    using Clock = std::chrono::steady_clock;

    // What the progress lock asks: ProgressLock's Work.
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
    template <class Done>
    void drive(Done&& done, Deadline deadline);
    [[nodiscard]] bool finish_or_drive(ProcessSet& set, const Completion& completion) noexcept;
    template <class Done>
    Status wait_for(Done&& done, double timeout_seconds);
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
    void wait_for_join(const Completion& join, Deadline deadline);
    void drive_for_others(const Completion& join, Deadline deadline);

    void run_background() noexcept;
    void background_turns() noexcept;
    void sleep_in_background(Turn last) noexcept;
    void look_after_others() noexcept;
    void look(std::int64_t now);
    void tell(const std::string& text, bool shut_down) noexcept;
    void look_after_others_in_time() noexcept;
    void report_death(const Liveness::Death& death);
    [[nodiscard]] std::optional<std::string> launcher_cause(std::int64_t now);
    [[nodiscard]] std::string cause_of(const Liveness::Death& death) const;
    [[nodiscard]] Status explain(const Status& failure) const;
    void mark_dead(std::uint32_t member);
    void mark_the_dead();
    void end_job(const std::string& reason);

    base::ControlBlock& control_;
    std::shared_ptr<collectives::Arena> arena_;
    base::RankBlock& block_;
    std::uint32_t members_;  // of the host
    StallSettings stall_settings_;
    SetList sets_;
    Messenger& messenger_;
    MessageWatch message_watch_;
    const std::atomic<std::uint32_t>& pending_;
    std::mutex changes_mutex_;  // nothing is locked under it
    std::vector<std::function<void()>> changes_;
    std::atomic<bool> has_changes_{false};  // seq_cst: change() rings after the store, who sleeps looks before
    base::Logger logger_;
    std::function<void()> quarantine_;
    WaitPolicy caller_policy_;
    WaitPolicy background_policy_;
    bool short_of_cores_;  // a look without a pause would keep the kernel from moving what is waited for
    std::chrono::nanoseconds look_again_;  // base::Config::look_again_seconds
    std::chrono::nanoseconds liveness_interval_;
    std::chrono::nanoseconds abort_grace_;

    Liveness liveness_;
    LauncherLine* launcher_;
    std::int64_t next_look_ns_ = 0;
    std::int64_t still_since_ns_ =
        0;  // of whoever holds the progress lock: nothing has moved since; 0: something has just now

    Lock lock_;
    /// Callers in join(), who are blocked though in no hurry. Relaxed: each looks at the messages itself after it has
    /// counted itself, with the progress lock.
    std::atomic<std::uint32_t> joining_{0};
    std::atomic<bool> failed_{
        false};           // everything pending was failed after an abort; of whoever holds the progress lock
    Status failed_with_;  // written once, before failed_
    // Made while there is memory for them: an abort is told also when there is none left.
    PreparedFailure room_for_reason_;   // as it was raised
    PreparedFailure room_for_failure_;  // with what else has to be said: failed_with_
    std::string no_memory_to_go_on_;
    std::atomic<bool> stopping_{false};
    std::thread background_;
};

}  // namespace rueda::core
