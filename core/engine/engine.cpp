// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/engine/engine.hpp"

#include <fmt/ranges.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <system_error>

#include "base/floating_point.hpp"
#include "base/recorder/recorder_writer.hpp"
#include "base/system/clock.hpp"
#include "base/system/thread_signals.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "core/engine/deadline.hpp"

namespace rueda::core {
namespace {

/// The longest sleep of a thread while an announcement waits for space in the mailbox. The sleep is short, because no
/// thread wakes this rank when there is space again.
constexpr std::chrono::milliseconds kDeferredSlice{5};

/// Returns the pause before the next check for messages from other hosts. The parameter `still` is the time since an
/// operation last made progress. The pause is a sixteenth of this time, but at least 20 µs and at most 1 ms, so it adds
/// little to the wait. After 100 ms without progress, the pause is a hundredth of this time, but at most 10 ms. Each
/// check for messages takes about 40 µs. Even a leader that has nothing to do must poll. Its polling takes 0.9 % of a
/// core in the first ten seconds.
std::chrono::nanoseconds poll_pause(std::chrono::nanoseconds still) {
    using std::chrono::microseconds;
    return std::max(std::clamp<std::chrono::nanoseconds>(still / 16, microseconds(20), microseconds(1000)),
                    std::min<std::chrono::nanoseconds>(still / 100, microseconds(10'000)));
}

/// How long a leader's background thread pauses if another thread holds the progress lock. The pause is shorter than
/// the time between heartbeats, so that the leader sends its heartbeats in time.
constexpr std::chrono::milliseconds kTurnedAwayPause{20};

/// How many times a sleeping leader wakes up within RUEDA_HOST_TIMEOUT. Each time it sends a heartbeat, which tells
/// other hosts that this leader is alive.
constexpr double kLeaderTurnsPerTimeout = 6;

/// The interval at which the background thread checks the other ranks of the host, if no operation is pending and
/// messages from other hosts wake this rank. With the default of RUEDA_HOST_TIMEOUT, a leader sends heartbeats at the
/// same interval.
constexpr std::chrono::milliseconds kIdleInterval{500};

/// The maximum number of turns in one poll(). In one turn, about one chunk is moved, which takes some tens of µs.
constexpr int kPollTurns = 64;
/// How many times a blocking send or receive checks for the other rank before it becomes a pending operation. All these
/// checks together take some µs, depending on how long the processor's PAUSE takes. A sleep and a wake-up take longer.
constexpr int kMessageLooks = 200;

/// Disables thread cancellation around code that sleeps or writes. A thread that is cancelled while it holds the
/// progress lock would never release the lock. The rest of the engine has no cancellation points.
class NoCancellation {
public:
    NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_); }
    ~NoCancellation() { pthread_setcancelstate(saved_, nullptr); }
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

private:
    int saved_ = 0;
};

std::chrono::nanoseconds until(std::int64_t time_ns) {
    return std::chrono::nanoseconds(std::max<std::int64_t>(time_ns - base::monotonic_ns(), 0));
}

/// Returns how long a thread may sleep: for `timeout`, or until the deadline if the deadline is earlier.
std::chrono::nanoseconds no_longer_than(std::chrono::nanoseconds timeout, Deadline deadline) {
    return deadline ? std::clamp<std::chrono::nanoseconds>(*deadline - std::chrono::steady_clock::now(),
                                                           std::chrono::nanoseconds(0), timeout)
                    : timeout;
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

constexpr std::string_view kLateText =
    "; a rank did not leave its batch in time, so the contents of tensors in resident memory are undefined";

Status timed_out(double seconds) {
    return failure(ErrorCode::timeout, "not completed after {} s; the operation goes on", seconds);
}

}  // namespace

Engine::Engine(const base::Config& config, std::shared_ptr<collectives::Arena> arena, std::shared_ptr<ProcessSet> world,
               Messenger& messenger, const std::atomic<std::uint32_t>& pending, base::Logger logger, double cores,
               std::string host, bool calls_mpi, LauncherLine* launcher, std::function<void()> quarantine,
               collectives::Wakeups* wakeups)
    : control_(arena->control()),
      calls_mpi_(calls_mpi),
      arena_(std::move(arena)),
      block_(control_.ranks[arena_->rank()]),
      stack_block_(control_.stack_of(arena_->rank())),
      members_(arena_->plan().members),
      stall_settings_(config),
      sets_(stall_settings_, std::move(world), arena_),
      messenger_(messenger),
      message_watch_(stall_settings_, block_),
      files_(config.diagnostics_dir, sets_.world().own_job_rank()),
      stall_file_(files_),
      stack_responder_(stack_block_),
      requested_stacks_(control_, members_, stall_settings_.silence_limit_ns),
      pending_(pending),
      logger_(std::move(logger)),
      quarantine_(std::move(quarantine)),
      caller_policy_(wait_policy(config.spin_seconds, cores, members_)),
      // The background thread does not spin, because the trainer may need the core.
      background_policy_{.spin_ns = 0, .yield_ns = caller_policy_.yield_ns},
      short_of_cores_(cores < static_cast<double>(members_)),
      look_again_(nanoseconds_of(config.look_again_seconds)),
      wakeups_(wakeups),
      leader_interval_(nanoseconds_of(config.host_timeout_seconds / kLeaderTurnsPerTimeout)),
      liveness_interval_(nanoseconds_of(config.liveness_seconds)),
      abort_grace_(nanoseconds_of(config.abort_grace_seconds)),
      liveness_(*arena_, std::move(host)),
      recorder_files_(files_, arena_, config.hostname, sets_.world().set_size()),
      launcher_(launcher),
      lock_(block_.attention, *this),
      room_for_reason_(base::AbortBlock<base::StdAtomics>::kTextBytes),
      room_for_failure_(base::AbortBlock<base::StdAtomics>::kTextBytes + kLateText.size()),
      no_memory_to_go_on_(
          fmt::format("rank {} ran out of memory while it drove its operations", sets_.world().own_job_rank())) {
    explain_failures_of(sets_.world());
}

Engine::~Engine() { stop(); }

Status Engine::start() {
    RUEDA_RETURN_IF_FAILED(liveness_.watch());
    for (const std::string& note : liveness_.notes()) {
        logger_.warning("{}", note);
    }
    // The new thread blocks all signals that the program's own threads may handle.
    const base::ProgramSignalsBlocked blocked;
    Status started;
    try {
        background_ = std::thread([this] { run_background(); });
    } catch (const std::system_error& error) {
        started = failure(ErrorCode::resource_exhausted,
                          "the background thread could not be started ({}): raise the limit of processes (ulimit -u, "
                          "or pids.max of the control group)",
                          error.what());
    }
    RUEDA_RETURN_IF_FAILED(started);
    pthread_setname_np(background_.native_handle(), "rueda");
    return {};
}

void Engine::offer_stacks() {
    offers_stacks_.store(true, std::memory_order_release);
    stack_block_.offer.store(static_cast<std::uint32_t>(base::StackOffer::offered), std::memory_order_release);
}

void Engine::refuse_stacks(std::string_view reason) {
    stack_block_.text.write(reason);
    stack_block_.offer.store(static_cast<std::uint32_t>(base::StackOffer::refused), std::memory_order_release);
}

void Engine::stop() {
    if (!background_.joinable()) {
        return;
    }
    stopping_.store(true, std::memory_order_seq_cst);
    block_.attention.ring_all();
    background_.join();
    stack_block_.offer.store(static_cast<std::uint32_t>(base::StackOffer::none), std::memory_order_release);
    stack_responder_.stop();
    // The engine object is never freed, so its file descriptors are closed here.
    liveness_.stop_watching();
    files_.stop();
    sets_.close_descriptors();
}

void Engine::end_pending(const Status& reason) {
    fail_pending(reason);
    lock_.tell_waiters();
    lock_.leave();
}

/// Fails everything that is pending, keeps the progress lock, and wakes the threads that wait for this lock. These
/// threads find their operations completed.
void Engine::end_for_good(const Status& reason) {
    fail_pending(reason);
    block_.attention.set(base::AttentionState::awake);
    lock_.tell_waiters();
}

/// Takes the progress lock, fails everything that is pending, and keeps the lock.
void Engine::fail_pending(const Status& reason) noexcept {
    while (!lock_.try_lock()) {
        std::this_thread::yield();
    }
    sets_.fail_all(reason);
    messenger_.fail_all(reason);
}

void Engine::explain_failures_of(ProcessSet& set) {
    set.explain_failures_with([this](const Status& failure) { return explain(failure); });
}

void Engine::add(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena) {
    explain_failures_of(*set);
    SetList::Entry entry = sets_.prepare(std::move(set), std::move(arena));
    change([this, &entry] { sets_.add(entry); });
}

void Engine::remove(ProcessSet& set, const Status& reason) {
    change([this, &set, &reason] {
        try {
            set.fail_all(reason);
            messenger_.forget(set.identity().id, reason);
        } catch (const std::bad_alloc&) {
            // The job is aborted here. Otherwise the threads that wait for pending operations would never return.
            raise(ErrorCode::resource_exhausted, "a rank ran out of memory while it removed a process set");
        }
        set.take_back_receives();
        sets_.world().look_after_messages_of(set);
        sets_.remove(set);
    });
}

/// Lets `make` change the list of sets, and waits until the list has changed. The holder of the progress lock runs
/// `make` in its next turn. This thread does not wait for the lock, because the holder may keep the lock for a long
/// time. `make` must not throw, because it may run in another thread.
void Engine::change(std::function<void()> make) {
    std::atomic<bool> made{false};
    queue_change([this, make = std::move(make), &made] {
        try {
            make();
        } catch (...) {  // the job ends, so that the thread that requested the change does not wait for ever
            end_job_of_failure(ErrorCode::internal, "a rank could not change the list of its process sets");
        }
        // The store to `made` is seq_cst, because the thread that waits below first stores that it sleeps, and then
        // reads `made`.
        made.store(true, std::memory_order_seq_cst);
    });
    static_cast<void>(wait_for([&] { return made.load(std::memory_order_seq_cst); }, -1));
}

/// If another rank asks whether this rank takes turns, passes the question on to the thread that drives progress. That
/// thread answers in its next turn. If it is stuck, it does not answer. This function does not wait for it.
///
/// Together with the answer, the thread stores which chunks its batches have. Only stall reports need the chunks, and
/// the rank that makes a report asks itself, too.
void Engine::pass_on_question_for_turn() {
    base::TurnBlock& turns = block_.turns;
    const std::uint32_t asked = turns.asked.load(std::memory_order_acquire);  // partner: TurnQuestions::ask()
    if (asked == turns.passed_on.load(std::memory_order_relaxed)) {           // only this thread stores `passed_on`
        return;
    }
    queue_change([this, asked] {
        sets_.note_chunks();
        block_.turns.answered.store(asked, std::memory_order_release);  // partner: TurnQuestions::ask()
    });
    turns.passed_on.store(asked, std::memory_order_release);  // partner: TurnQuestions::ask()
}

/// Lets the holder of the progress lock run `make` in its next turn.
void Engine::queue_change(std::function<void()> make) {
    {
        const std::lock_guard lock(changes_mutex_);
        changes_.push_back(std::move(make));
    }
    has_changes_.store(true, std::memory_order_seq_cst);  // seq_cst: turn() reads it
    lock_.ring_for_change();
}

/// Makes the changes that queue_change() has queued. The caller holds the progress lock.
void Engine::make_changes() {
    std::vector<std::function<void()>> changes;
    {
        const std::lock_guard lock(changes_mutex_);
        has_changes_.store(false, std::memory_order_relaxed);
        changes.swap(changes_);
    }
    for (const std::function<void()>& make : changes) {
        make();
    }
    lock_.tell_of_change();
}

void Engine::raise(ErrorCode code, std::string_view text) noexcept {
    control_.abort.raise(code, text);
    ring_everybody();
}

void Engine::ring_everybody() noexcept {
    for (std::uint32_t member = 0; member < members_; ++member) {
        control_.ranks[member].attention.ring_all();
    }
}

Status Engine::abort_reason() const {
    return failed_.load(std::memory_order_seq_cst) ? failed_with_ : control_.abort.reason();
}

/// Does one turn of the work. Throws nothing: if the turn fails, this function ends the job. The turn works for all
/// waiting threads of this rank, so all of them must learn of the failure.
Turn Engine::turn(bool urgent, bool asks_others) noexcept try {
    if (has_changes_.load(std::memory_order_seq_cst)) [[unlikely]] {
        make_changes();
    }
    if (aborted()) [[unlikely]] {
        fail_after_abort();
        return Turn::idle;
    }
    if (wakeups_ != nullptr && asks_others) {
        // A turn that advances disarms too. Otherwise each message that this thread takes in would also wake the thread
        // that watches the sockets, for nothing.
        wakeups_->disarm();
    }
    Turn turn = sets_.step(urgent, asks_others);
    if (messenger_.needs_turn()) [[unlikely]] {
        turn = busier(turn, turn_messages(urgent || joining_.load(std::memory_order_relaxed) > 0, asks_others));
    }
    if (turn == Turn::advanced) {
        still_since_ns_ = 0;
        lock_.tell_waiters();
    }
    return wakeups_ != nullptr && !asks_others ? arm_before_sleep(turn) : turn;
} catch (const std::bad_alloc&) {
    end_job_of_failure(ErrorCode::resource_exhausted, no_memory_to_go_on_);
    return Turn::idle;
} catch (const std::exception& error) {
    end_job_of_failure(ErrorCode::internal, error.what());
    return Turn::idle;
} catch (...) {
    end_job_of_failure(ErrorCode::internal, "an exception of an unknown type was thrown while a rank drove progress");
    return Turn::idle;
}

/// Aborts the job, unless it was already aborted. The next turn fails everything that is pending.
void Engine::end_job_of_failure(ErrorCode code, std::string_view text) noexcept {
    if (!aborted()) {
        raise(code, text);
    }
}

/// Switches the wake-ups by messages from other hosts on, because this thread is about to sleep. If messages have
/// arrived, returns `advanced`, so that the thread does not sleep. The thread handles these messages in its next turn.
Turn Engine::arm_before_sleep(Turn turn) {
    if (wakeups_->take_in()) {
        return Turn::advanced;
    }
    wakeups_->arm();
    return turn;
}

/// Returns `timeout`, or a shorter time if this rank is a leader that must wake up earlier to send a heartbeat.
std::chrono::nanoseconds Engine::no_longer_than_leader(std::chrono::nanoseconds timeout) const {
    return wakeups_ != nullptr ? std::min(timeout, leader_interval_) : timeout;
}

/// Returns how long the background thread sleeps at most. While an operation of this rank is pending, the thread
/// watches the other ranks of the host once per liveness interval, because the operation may wait for them.
std::chrono::nanoseconds Engine::longest_background_sleep() const {
    const bool is_idle = wakeups_ != nullptr && pending() == 0;
    return no_longer_than_leader(is_idle ? std::max<std::chrono::nanoseconds>(liveness_interval_, kIdleInterval)
                                         : liveness_interval_);
}

Turn Engine::turn_messages(bool somebody_waits, bool asks_others) noexcept {
    const std::optional<Messenger::Step> step =
        or_end_job([&] { return messenger_.step(somebody_waits, asks_others); });
    const Messenger::Step found = step.value_or(Messenger::Step{});
    return found.moved             ? Turn::advanced
           : found.has_to_poll     ? Turn::polling
           : found.is_transferring ? Turn::waiting
                                   : Turn::idle;
}

/// Calls the function `work`, which uses the messenger, and returns its value. If `work` fails, this function aborts
/// the job and returns nothing, because other ranks depend on what this rank was about to do.
template <class Work>
auto Engine::or_end_job(Work&& work) noexcept -> std::optional<std::decay_t<decltype(work().value())>> {
    try {
        const auto worked = work();
        if (worked.is_ok()) {
            return worked.value();
        }
        const Status failed = worked.status().code() == ErrorCode::aborted ? explain(worked.status()) : worked.status();
        raise(failed.code(), failed.message());
    } catch (const std::bad_alloc&) {
        raise(ErrorCode::resource_exhausted, "a rank ran out of memory while it sent or received a message");
    } catch (...) {
        raise(ErrorCode::internal, "a rank could not go on with its sends and receives");
    }
    return std::nullopt;
}

/// Returns the pause before the next check for messages; see poll_pause(). The caller holds the progress lock.
std::chrono::nanoseconds Engine::next_poll() {
    const std::int64_t now = base::monotonic_ns();
    still_since_ns_ = still_since_ns_ == 0 ? now : still_since_ns_;
    return poll_pause(std::chrono::nanoseconds(now - still_since_ns_));
}

/// Fails everything that is pending, after an abort. When this function returns, this rank does not write to any other
/// rank's memory. Callers get their tensors back only when no other rank writes to these tensors. If another rank does
/// not confirm in time that it has stopped writing, the memory that this other rank can reach is quarantined (never
/// reused).
///
/// Most of this function allocates no memory, because lack of memory is a frequent reason for an abort. Messages to
/// other hosts and to ruedarun are left out if there is no memory for them.
void Engine::fail_after_abort() noexcept {
    if (!failed_.load(std::memory_order_relaxed)) {
        leave_batches();
    }
    sets_.fail_all(failed_with_);  // fails all pending operations, also those that were submitted after leave_batches()
    messenger_.fail_all(failed_with_);
    failed_.store(true, std::memory_order_seq_cst);  // abort_reason() loads `failed_` before it reads `failed_with_`
    lock_.tell_waiters();
}

/// Makes this rank leave its batches after an abort, waits for the other ranks, and sets failed_with_. Runs once.
void Engine::leave_batches() noexcept {
    const NoCancellation no_cancellation;
    sets_.take_decided_errors();
    block_.left_batches.store(1, std::memory_order_release);
    ring_everybody();  // wakes all ranks, because a process set that raised the abort has woken only its own members
    const auto raised = control_.abort.reason_in_place();
    // The files are written before the program learns of the abort, because the program may then end at once.
    write_recorders(raised.text, /*at_end=*/true);
    sets_.leave_other_hosts(room_for_reason_.make(raised.code, {raised.text}));
    const auto deadline = Clock::now() + abort_grace_;
    const auto somebody_writes = [this] {
        for (std::uint32_t member = 0; member < members_; ++member) {
            if (may_write(member)) {
                return true;
            }
        }
        return false;
    };
    while (somebody_writes() && Clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    failed_with_ = room_for_failure_.make(raised.code, {raised.text, somebody_writes() ? kLateText : ""});
    try {
        quarantine_();
        if (launcher_ != nullptr) {
            // The report is sent before the program learns of the abort, because the program may then end at once.
            launcher_->report_abort(raised.text);
        }
    } catch (const std::exception&) {
        // Without this message, ruedarun treats the end of this rank like any other.
        static_cast<void>(raised);
    }
}

/// Returns whether another rank may still write to this rank's memory after an abort. A rank that has left its batches
/// or the job, or has died, does not write. This function also reads /proc, because the abort may come before any rank
/// has noticed a death. For example, a connection to another host may break first.
bool Engine::may_write(std::uint32_t member) const {
    const base::RankBlock& other = control_.ranks[member];
    const auto state = static_cast<base::RankState>(other.state.load(std::memory_order_acquire));
    if (other.left_batches.load(std::memory_order_acquire) != 0 || state == base::RankState::left ||
        state == base::RankState::dead) {
        return false;
    }
    return !process_has_ended(other);
}

/// Drives progress until `done` returns true or the deadline has passed. If `haste` is Haste::none, also returns if
/// another caller waits for the lock, or if no operation makes progress. The caller holds the progress lock.
template <class Done>
void Engine::drive(Done&& done, Deadline deadline, Haste haste) {
    const base::DefaultFloatingPoint default_floating_point;
    const base::SigpipeBlocked without_sigpipe(calls_mpi_);
    block_.attention.set(base::AttentionState::awake);
    Backoff backoff(caller_policy_);
    while (!done()) {
        if (deadline && Clock::now() >= *deadline) {
            return;
        }
        if (haste == Haste::none && lock_.has_waiters()) {
            return;
        }
        const Turn found = turn(/*urgent=*/haste == Haste::urgent);
        if (found == Turn::advanced) {
            backoff.reset();
        } else if (!done() && ((found == Turn::polling && short_of_cores_) || !backoff.pause())) {
            if (haste == Haste::none) {
                return;
            }
            const bool was_woken = sleep_as_caller(found, done, deadline);
            if (!has_to_poll(found)) {
                // If another thread has woken this thread, the next wait begins with spinning. If the sleep ended by
                // its own timer, this thread checks its condition once and sleeps again. The backoff of a rank that
                // must poll is not changed here, because its pauses must continue to grow.
                was_woken ? backoff.reset() : backoff.end();
            }
        }
    }
}

/// Lets this thread sleep, unless there is new work. Returns whether the sleep ended before its time was over.
template <class Done>
bool Engine::sleep_as_caller(Turn last, Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    const std::chrono::nanoseconds longest = has_to_poll(last)      ? next_poll()
                                             : sets_.has_deferred() ? kDeferredSlice
                                                                    : look_again_;
    const std::chrono::nanoseconds timeout = no_longer_than(no_longer_than_leader(longest), deadline);
    const std::int64_t begin_ns = base::monotonic_ns();
    lock_.sleep_as_caller([&] { return turn(/*urgent=*/true, /*asks_others=*/false) != Turn::advanced && !done(); },
                          timeout);
    return base::monotonic_ns() - begin_ns < timeout.count();
}

void Engine::attend() { lock_.attend(); }

void Engine::poll() {
    lock_.poll([this](base::AttentionState before) {
        const base::DefaultFloatingPoint default_floating_point;
        const base::SigpipeBlocked without_sigpipe(calls_mpi_);
        int advanced = 0;
        while (advanced < kPollTurns && turn(/*urgent=*/false) == Turn::advanced) {
            ++advanced;
        }
        if (messenger_.needs_turn() && !aborted()) {
            static_cast<void>(turn_messages(/*somebody_waits=*/true, /*asks_others=*/false));
        }
        arm_wakeups();  // switches the wake-ups by messages on again; the turns above have switched them off
        // `handed_on` says whether the background thread will do the rest of the work. The attention state tells other
        // ranks which thread of this rank to wake, and `before` is this state as it was before the turns above. In the
        // state `asleep`, other ranks wake the background thread for everything that was called or has arrived since
        // then. In the state `holding_back`, a timer wakes the background thread, but only to close the batch that this
        // rank holds open.
        const bool handed_on = before == base::AttentionState::asleep
                                   ? advanced < kPollTurns
                                   : before == base::AttentionState::holding_back && advanced == 0;
        return handed_on && !sets_.has_deferred() && !has_unhandled_message();
    });
}

Status Engine::start(MessageRequest request, Completion& completion) {
    RUEDA_RETURN_IF_FAILED(messenger_.submit(std::move(request), completion));
    if (Lock::Held held(lock_); held) {
        const base::DefaultFloatingPoint default_floating_point;
        const base::SigpipeBlocked without_sigpipe(calls_mpi_);
        static_cast<void>(turn(/*urgent=*/false));
    } else {
        lock_.ring_holder();
    }
    attend();
    return {};
}

Status Engine::run(MessageRequest request, Completion& completion) {
    request.is_blocking = true;
    Lock::Held held(lock_);
    if (!held) {
        RUEDA_RETURN_IF_FAILED(messenger_.submit(std::move(request), completion));
        lock_.ring_holder();
        return wait(completion, -1);
    }
    std::optional tried = Messenger::AtOnce::no;
    if (pending() == 0 && !holder_has_unread() && !aborted() && !has_changes_.load(std::memory_order_seq_cst)) {
        const int looks = caller_policy_.spin_ns > 0 ? kMessageLooks : 1;
        tried = or_end_job([&] { return messenger_.run_at_once(request, completion, looks); });
    }
    if (!tried) {
        // The job was aborted. The turn below ends everything that is pending on this rank. After that, nothing refers
        // to `completion`, which the caller may now destroy.
        static_cast<void>(turn(/*urgent=*/true));
        return abort_reason();
    }
    if (*tried == Messenger::AtOnce::done) {
        return {};
    }
    if (*tried == Messenger::AtOnce::no) {
        RUEDA_RETURN_IF_FAILED(messenger_.submit(std::move(request), completion));
    }
    const std::int64_t began_ns = base::monotonic_ns();
    messenger_.note_awaited(completion);
    drive([&] { return completion.done(); }, std::nullopt);
    note_blocked_since(began_ns);
    held.leave();
    return completion.status();
}

void Engine::end_messages() {
    change([this] {
        try {
            messenger_.shut_down();
        } catch (const std::bad_alloc&) {
            raise(ErrorCode::resource_exhausted, "a rank ran out of memory while it shut down");
        }
    });
}

Status Engine::wait(const Completion& completion, double timeout_seconds) {
    if (completion.done()) {
        return completion.status();
    }
    const auto done = [&completion] { return completion.done(); };
    const std::int64_t began_ns = base::monotonic_ns();
    if (completion.message_record != base::RecorderWriter::kNone) [[unlikely]] {
        messenger_.note_awaited(completion);
    }
    if (completion.is_join) [[unlikely]] {
        joining_.fetch_add(1, std::memory_order_relaxed);
        static_cast<void>(wait_for(done, timeout_seconds, Haste::none));
        joining_.fetch_sub(1, std::memory_order_relaxed);
    } else {
        static_cast<void>(wait_for(done, timeout_seconds));
    }
    note_blocked_since(began_ns);
    return ended_or_timed_out(completion, timeout_seconds);
}

Status Engine::wait_until_launched(const Completion& completion, double timeout_seconds) {
    const std::int64_t began_ns = completion.is_launched() ? 0 : base::monotonic_ns();
    static_cast<void>(wait_for([&completion] { return completion.is_launched(); }, timeout_seconds));
    if (began_ns != 0) {
        note_blocked_since(began_ns);
    }
    return completion.is_launched() ? Status() : ended_or_timed_out(completion, timeout_seconds);
}

WaitReport Engine::account_of(const Completion& completion) const {
    const std::int64_t now = base::monotonic_ns();
    WaitReport report = sets_.account_of(completion, now);
    if (!report.parts.empty()) {
        return report;
    }
    messenger_.for_each_pending([&](const MessageOperation& operation) {
        if (operation.completion == &completion) {
            report.kind = operation.request.sends ? WaitReport::Kind::send : WaitReport::Kind::receive;
            report.parts.push_back(other_side_of(operation, block_.global_rank.load(std::memory_order_relaxed)));
        }
    });
    if (report.parts.empty()) {
        return report;
    }
    const std::vector<std::int32_t>& missing = report.parts.front().missing;
    for (StallReport::Rank& rank : sets_.account_of_world(now).missing_ranks) {
        if (std::find(missing.begin(), missing.end(), rank.rank) != missing.end()) {
            report.ranks.push_back(std::move(rank));
        }
    }
    return report;
}

/// Returns the result of a wait. If the wait timed out, the text says what the operation waits for. Takes no progress
/// lock and does not wait for other threads.
Status Engine::ended_or_timed_out(const Completion& completion, double seconds) const {
    // The shortest wait, in seconds, whose error describes what the operation waits for. A shorter wait is probably one
    // of many in a polling loop, which the description would slow down, because it reads every slot.
    constexpr double kShortestWithAccount = 0.2;
    WaitReport report;
    if (!completion.done() && seconds >= kShortestWithAccount) {
        try {
            report = account_of(completion);
        } catch (const std::bad_alloc&) {
            report = {};
        }
    }
    if (completion.done()) {
        return completion.status();
    }
    return report.parts.empty() ? timed_out(seconds)
                                : failure(ErrorCode::timeout, "{}: not completed after {} s: {}; the operation goes on",
                                          format_awaited(report), seconds, format_wait(report));
}

/// Call this after a submit. The caller holds the progress lock. If the operation ends at once, returns true. In that
/// case `completion` is done only if the operation has a result. If the operation does not end at once, drives progress
/// until it has ended or `seconds` have passed (a negative number means no limit), and returns false.
bool Engine::finish_or_drive(ProcessSet& set, const Completion& completion, double seconds) noexcept {
    // 200 checks take two or three µs, far less than a sleep and a wake-up. If ranks work in step, their announcements
    // arrive within this time.
    constexpr int kLooks = 200;
    const base::DefaultFloatingPoint default_floating_point;
    if (set.finish_at_once(aborted() ? 0 : caller_policy_.spin_ns > 0 ? kLooks : 1)) {
        return true;
    }
    const std::int64_t began_ns = base::monotonic_ns();
    drive([&] { return completion.done(); }, deadline_in(seconds));
    note_blocked_since(began_ns);
    return false;
}

void Engine::note_blocked_since(std::int64_t began_ns) noexcept {
    blocked_ns_.fetch_add(base::monotonic_ns() - began_ns, std::memory_order_relaxed);
}

/// If the mailbox is full, Announcer::retry_deferred() posts the announcement in a later turn. No thread wakes this
/// rank when the mailbox has space again, so the waiting thread tries again after each kDeferredSlice.
Status Engine::announce_shutdown(ProcessSet& set, EndCall call, double timeout_seconds) {
    set.begin_to_await_end(call);
    // After an abort, this rank posts nothing. A rank may have died and left the tables of the negotiation incomplete.
    if (!aborted()) {
        set.announce_shutdown();
    }
    return wait_for([&] { return set.has_announced_shutdown() || failed_.load(std::memory_order_seq_cst); },
                    timeout_seconds);
}

/// Waits for the world first, because the world's stall report names all missing ranks. The other sets share the
/// remaining time.
Status Engine::wait_until_closed(double timeout_seconds) {
    const Deadline deadline = deadline_in(timeout_seconds);
    const auto has_failed = [this] { return failed_.load(std::memory_order_seq_cst); };
    ProcessSet& world = sets_.world();
    RUEDA_RETURN_IF_FAILED(wait_for([&] { return world.has_left() || has_failed(); }, timeout_seconds));
    world.end_to_await_end();
    if (!has_failed() && !sets_.have_left()) {
        sets_.begin_to_await_ends();
    }
    return wait_for([&] { return sets_.have_left() || has_failed(); }, seconds_left(deadline));
}

Status Engine::wait_until_closed(ProcessSet& set) {
    Status waited = wait_for([&] { return set.has_left() || failed_.load(std::memory_order_seq_cst); }, -1);
    set.end_to_await_end();
    return waited;
}

/// Sleeps until an operation makes progress or ends.
template <class Done>
void Engine::await_movement(Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    lock_.wait_until_moved(done, no_longer_than(look_again_, deadline));
}

template <class Done>
Status Engine::wait_for(Done&& done, double timeout_seconds, Haste haste) {
    const Deadline deadline = deadline_in(timeout_seconds);
    while (!done()) {
        if (Lock::Held held(lock_); held) {
            drive(done, deadline, haste);
            if (haste == Haste::none) {
                held.leave();
                await_movement(done, deadline);
            }
        } else {
            wait_for_progress_lock(done, deadline);
        }
        if (deadline && Clock::now() >= *deadline) {
            break;
        }
    }
    // makes another thread drive progress, because this thread may have released the progress lock although work was
    // left
    attend();
    return done() ? Status() : timed_out(timeout_seconds);
}

/// Waits until the thread that drives progress releases the progress lock. If that thread is the background thread, it
/// releases the lock when it sees a waiting thread.
template <class Done>
void Engine::wait_for_progress_lock(Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    // this number of spins takes about as long as the background thread's step on a small batch
    constexpr int kSpins = 200;
    lock_.wait_until_free(done, no_longer_than(look_again_, deadline), kSpins);
}

void Engine::run_background() noexcept {
    while (!stopping_.load(std::memory_order_seq_cst)) {
        look_after_others();
        background_turns();
    }
}

void Engine::background_turns() noexcept {
    // If nothing is pending, a thread that releases the progress lock wakes no other thread. Leaders must send
    // heartbeats to other hosts even if nothing is pending, so a leader's sleep must be short.
    const auto timeout = [this]() -> std::chrono::nanoseconds {
        return sets_.anybody_has_to_poll() || messenger_.has_to_poll()
                   ? std::min<std::chrono::nanoseconds>(liveness_interval_, kTurnedAwayPause)
                   : longest_background_sleep();
    };
    if (!lock_.lock_as_background(timeout)) {
        return;
    }
    const base::DefaultFloatingPoint default_floating_point;
    // In the state `awake`, other ranks do not make a system call to wake this thread.
    block_.attention.set(base::AttentionState::awake);
    Backoff backoff(background_policy_);
    Turn last = Turn::idle;
    while (!lock_.has_waiters() && !stopping_.load(std::memory_order_relaxed)) {
        last = turn(/*urgent=*/false);
        if (last == Turn::advanced) {
            backoff.reset();
            // checks the other ranks here too, because turns may follow each other for seconds without a pause
            look_after_others_in_time();
        } else if (!(last == Turn::waiting || (last == Turn::polling && !short_of_cores_)) || !backoff.pause()) {
            break;
        }
    }
    sleep_in_background(last);
}

/// The caller holds the progress lock. This function releases the lock before the background thread sleeps.
void Engine::sleep_in_background(Turn last) noexcept {
    std::chrono::nanoseconds timeout = longest_background_sleep();
    base::AttentionState state = base::AttentionState::awake;
    if (const auto hold_until_ns = sets_.hold_until_ns()) {
        timeout = until(*hold_until_ns);
    }
    if (last == Turn::holding) {
        state = base::AttentionState::holding_back;
    } else if (pending() > 0) {
        state = base::AttentionState::asleep;
        timeout = sets_.has_deferred() ? std::min<std::chrono::nanoseconds>(timeout, kDeferredSlice) : timeout;
    }
    if (has_to_poll(last)) {
        timeout = std::min(timeout, next_poll());
    }
    lock_.sleep_as_background(state, [&]() -> std::optional<std::chrono::nanoseconds> {
        const Turn look = turn(/*urgent=*/false, /*asks_others=*/false);
        // The turn above may have begun to hold a batch of another process set open. The sleep must end when that batch
        // must be closed.
        if (const auto hold_until_ns = sets_.hold_until_ns()) {
            timeout = std::min(timeout, until(*hold_until_ns));
        }
        // A result that differs from `last` does not always mean new work. For example, this rank may only have begun
        // to hold a batch open. A turn that closes a batch returns `advanced`.
        const auto is_under_way = [](Turn turn) { return turn == Turn::waiting || turn == Turn::polling; };
        const bool nothing_new =
            look != Turn::advanced && (look == last || (look == Turn::idle && last != Turn::holding) ||
                                       (is_under_way(look) && is_under_way(last)));
        return nothing_new ? std::optional(timeout) : std::nullopt;
    });
}

/// The coarse clock is cheap enough for every turn. It is at most a few milliseconds late.
void Engine::look_after_others_in_time() noexcept {
    if (base::coarse_monotonic_ns() >= next_look_ns_) {
        look_after_others();
    }
}

/// Watches the other ranks. If a check fails because memory ran out, the next check repeats it and finds a dead rank
/// again.
void Engine::look_after_others() noexcept {
    const std::int64_t now = base::monotonic_ns();
    if (now < next_look_ns_) {
        return;
    }
    next_look_ns_ = now + liveness_interval_.count();
    block_.heartbeat_ns.store(now, std::memory_order_relaxed);
    if (aborted()) {
        return;
    }
    try {
        look(now);
    } catch (const std::bad_alloc&) {
        static_cast<void>(now);  // no memory for this check; the next check may find enough memory
    } catch (...) {
        end_job_of_failure(ErrorCode::internal, "a rank could not watch the other ranks");
    }
}

void Engine::look(std::int64_t now) {
    if (const auto death = liveness_.check()) {
        report_death(*death);
        return;
    }
    if (const auto cause = launcher_cause(now)) {
        mark_the_dead();
        end_job(*cause);
        return;
    }
    look_at_stacks(now);
    // Each finding of sets_.look() is returned only once. So all findings are reported before message_watch_ is called,
    // because that call may run out of memory.
    for (const SetList::Finding& finding : sets_.look(now)) {
        tell(finding);
    }
    // This call comes after sets_.look(), which may ask this rank itself.
    pass_on_question_for_turn();
    if (const auto late = message_watch_.look(now, messenger_, sets_.reports_stalls_of_world(now))) {
        if (!late->report_before.empty()) {
            tell({late->report_before, false});
        }
        tell({late->text, late->shut_down});
    }
}

void Engine::look_at_stacks(std::int64_t now) {
    if (!offers_stacks_.load(std::memory_order_acquire)) {
        return;
    }
    if (const auto stacks = requested_stacks_.look(take_print_request(), now)) {
        logger_.write(base::LogLevel::warning, *stacks);
        write_recorders("a person requested the stacks by a signal", /*at_end=*/false);
    }
    // This call answers requests for this rank's stack. It comes after requested_stacks_.look(), which may make such a
    // request.
    stack_responder_.look();
}

/// Writes a finding to the log. The line is written before the abort, because a program that learns of the abort may
/// end at once. If there is no memory for the line, the job is aborted without it.
void Engine::tell(const SetList::Finding& finding) noexcept {
    try {
        if (!finding.text.empty()) {
            logger_.write(finding.shut_down ? base::LogLevel::error : base::LogLevel::warning, finding.text);
        }
        if (finding.report != nullptr) {
            handle_report(finding);
        }
        if (!finding.record_because.empty()) {
            write_recorders(finding.record_because, /*at_end=*/false);
        }
    } catch (...) {
        static_cast<void>(finding);
    }
    if (finding.shut_down) {
        raise(ErrorCode::aborted, finding.text);
    }
}

void Engine::handle_report(const SetList::Finding& finding) {
    if (!finding.text.empty()) {
        base::RecorderWriter(arena_->recorder(arena_->rank())).note_stall_report();
    }
    if (!files_.is_wanted()) {
        return;
    }
    write_file(finding);
    // At the end of the job, every rank writes its own flight recorder.
    if (!finding.text.empty() && !finding.shut_down) {
        write_recorders(summarize_stall(*finding.report), /*at_end=*/false);
    }
}

void Engine::write_file(const SetList::Finding& finding) {
    const StallWriter writer{block_.global_rank.load(std::memory_order_relaxed),
                             block_.pid.load(std::memory_order_relaxed), stall_settings_.host};
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    warn_about_files(stall_file_.add(writer, {*finding.report, finding.process_set, now.count(), finding.ends_job}));
}

/// Writes the flight recorders (the ranks' last operations) to files, if the user asked for files.
void Engine::write_recorders(std::string_view reason, bool at_end) noexcept {
    warn_about_files(at_end ? recorder_files_.write_at_end(reason) : recorder_files_.write_all(reason));
}

void Engine::warn_about_files(const std::optional<std::string>& complaint) noexcept {
    if (complaint) {
        try {
            logger_.warning("RUEDA_DIAGNOSTICS_DIR: {}", *complaint);
        } catch (...) {
            // There is no memory for the warning. The job goes on, because it needs neither the warning nor the files.
        }
    }
}

/// Ends the job because a rank has died. If there is no memory for the full text, only the death itself is reported.
void Engine::report_death(const Liveness::Death& death) {
    mark_dead(death.member);
    try {
        mark_the_dead();
        end_job(launcher_ == nullptr ? death.text
                                     : launcher_->cause_of_death(death.rank, death.text, death.end_reason));
    } catch (const std::bad_alloc&) {
        raise(ErrorCode::aborted, death.text);
    }
}

void Engine::mark_dead(std::uint32_t member) {
    control_.ranks[member].state.store(static_cast<std::uint32_t>(base::RankState::dead), std::memory_order_release);
}

/// Marks all other dead ranks too. This happens before the abort, so that no rank waits for a dead rank to leave its
/// batch.
void Engine::mark_the_dead() {
    while (const auto dead = liveness_.check()) {
        mark_dead(dead->member);
    }
}

void Engine::end_job(const std::string& reason) {
    const bool first = !aborted();
    raise(ErrorCode::aborted, reason);
    if (first) {
        logger_.error("{}", reason);
    }
}

/// If the launcher has reported the end of a rank (on any host), returns a text about it. Returns nothing if this end
/// does not matter to this rank any more.
std::optional<std::string> Engine::launcher_cause(std::int64_t now) {
    if (launcher_ == nullptr) {
        return std::nullopt;
    }
    const auto standing = [this] {
        // The acquire load of the state pairs with the release in Runtime::shutdown(), and with the release of the
        // thread that reads the end of the log. Another rank may exit normally because this rank shuts down. Then this
        // rank's state and the end of the log were written before that rank exited, and therefore before the
        // notification about its exit arrived here.
        const auto state = static_cast<base::RankState>(block_.state.load(std::memory_order_acquire));
        return sets_.are_closed()                  ? Standing::closed
               : state == base::RankState::running ? Standing::running
                                                   : Standing::shutting_down;
    };
    return launcher_->cause(standing, now);
}

/// Finds the cause of a broken connection. Usually a rank has ended, and the launcher knows which rank, and how. If
/// there is no notification from the launcher, the returned text names the failure and the ranks of this host that have
/// died. A death on this host can be the cause even if the broken connection leads to another host: when a rank dies,
/// MPI also ends processes on other hosts that were connected to it. This rank may notice the end of such a process
/// before it notices the death on its own host.
Status Engine::explain(const Status& failure) const {
    if (const std::optional<std::string> notification =
            launcher_ != nullptr ? launcher_->notification_of_failure() : std::nullopt) {
        return {ErrorCode::aborted, *notification};
    }
    const std::vector<std::string> ended = liveness_.ended();
    return ended.empty()
               ? failure
               : Status(failure.code(), fmt::format("{}; here {} died", failure.message(), fmt::join(ended, " and ")));
}

}  // namespace rueda::core
