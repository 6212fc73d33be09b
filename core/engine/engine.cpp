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
#include <system_error>

#include "base/floating_point.hpp"
#include "base/system/clock.hpp"
#include "base/system/thread_signals.hpp"
#include "core/engine/deadline.hpp"

namespace rueda::core {
namespace {

/// How long a thread sleeps at most while an announcement waits for room in the mailbox: the registrar that makes room
/// rings nobody.
constexpr std::chrono::milliseconds kDeferredSlice{5};

/// The pause before the next look for what comes from other hosts, after nothing has come for `still`: a sixteenth of
/// that, so that it adds little to any wait, up to a millisecond; later a 100th, up to ten, which adds nothing that
/// anybody feels after such a wait. Each look takes some 40 µs: a leader with nothing to do uses 0.9 % of a core in its
/// first ten seconds.
std::chrono::nanoseconds poll_pause(std::chrono::nanoseconds still) {
    using std::chrono::microseconds;
    return std::max(std::clamp<std::chrono::nanoseconds>(still / 16, microseconds(20), microseconds(1000)),
                    std::min<std::chrono::nanoseconds>(still / 100, microseconds(10'000)));
}

/// Of a leader's background thread that finds the progress lock taken; a fraction of the time between heartbeats.
constexpr std::chrono::milliseconds kTurnedAwayPause{20};

/// Of one poll: each moves about a chunk, within some tens of µs.
constexpr int kPollTurns = 64;

/// A thread that is cancelled while it holds the progress lock would leave it held for ever. Around what sleeps or
/// writes: the rest of the engine has no cancellation point.
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

/// The time of a sleep that must also end at the deadline.
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
               std::string host, LauncherLine* launcher, std::function<void()> quarantine)
    : control_(arena->control()),
      arena_(std::move(arena)),
      block_(control_.ranks[arena_->rank()]),
      members_(arena_->plan().members),
      stall_settings_(config),
      sets_(stall_settings_, std::move(world), arena_),
      messenger_(messenger),
      message_watch_(stall_settings_, control_.ranks[arena_->rank()].global_rank),
      pending_(pending),
      logger_(std::move(logger)),
      quarantine_(std::move(quarantine)),
      caller_policy_(wait_policy(config.spin_seconds, cores, members_)),
      // The trainer may need the core that a spinning background thread would burn; yielding lets it run.
      background_policy_{.spin_ns = 0, .yield_ns = caller_policy_.yield_ns},
      short_of_cores_(cores < static_cast<double>(members_)),
      look_again_(nanoseconds_of(config.look_again_seconds)),
      liveness_interval_(nanoseconds_of(config.liveness_seconds)),
      abort_grace_(nanoseconds_of(config.abort_grace_seconds)),
      liveness_(*arena_, std::move(host)),
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
    // The background thread takes no signals: they belong to the program's threads.
    const sigset_t blocked = base::signals_of_the_program();
    sigset_t saved;
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    Status started;
    try {
        background_ = std::thread([this] { run_background(); });
    } catch (const std::system_error& error) {
        started = failure(ErrorCode::resource_exhausted,
                          "the background thread could not be started ({}): raise the limit of processes (ulimit -u, "
                          "or pids.max of the control group)",
                          error.what());
    }
    pthread_sigmask(SIG_SETMASK, &saved, nullptr);
    RUEDA_RETURN_IF_FAILED(started);
    pthread_setname_np(background_.native_handle(), "rueda");
    return {};
}

void Engine::stop() {
    if (!background_.joinable()) {
        return;
    }
    stopping_.store(true, std::memory_order_seq_cst);
    block_.attention.ring_all();
    background_.join();
    // The engine itself stays in memory for good.
    liveness_.stop_watching();
    sets_.close_descriptors();
}

void Engine::end_pending(const Status& reason) {
    fail_pending(reason);
    lock_.tell_waiters();
    lock_.leave();
}

/// Who waits for the progress lock finds what he waits for done.
void Engine::end_for_good(const Status& reason) {
    fail_pending(reason);
    block_.attention.set(base::AttentionState::awake);
    lock_.tell_waiters();
}

/// Takes the progress lock, and keeps it.
void Engine::fail_pending(const Status& reason) noexcept {
    while (!lock_.try_lock()) {
        std::this_thread::yield();
    }
    sets_.fail_all(reason);
    messenger_.fail_all(reason);
}

// ---- its sets
// --------------------------------------------------------------------------------------------------------------

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
            // Who waits for what was pending would wait for ever.
            raise(ErrorCode::resource_exhausted, "a rank ran out of memory as it removed a process set");
        }
        set.take_back_receives();
        sets_.world().look_after_messages_of(set);
        sets_.remove(set);
    });
}

/// Whoever holds the progress lock, maybe for as long as a caller waits for his operation, makes the change in his next
/// turn. `make` throws nothing: that may be any thread.
void Engine::change(std::function<void()> make) {
    std::atomic<bool> made{false};
    {
        const std::lock_guard lock(changes_mutex_);
        changes_.push_back([this, make = std::move(make), &made] {
            try {
                make();
            } catch (...) {  // whoever asked for it must not wait for ever
                end_job_of_failure(ErrorCode::internal, "a rank could not change what it attends to");
            }
            made.store(true, std::memory_order_seq_cst);  // partner: the wait below
        });
    }
    has_changes_.store(true, std::memory_order_seq_cst);  // partner: turn()
    lock_.ring_for_change();
    static_cast<void>(wait_for([&] { return made.load(std::memory_order_seq_cst); }, -1));
}

/// The progress lock is held.
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

// ---- turns ----------------------------------------------------------------------------------------------------------

/// Nothing escapes from a turn: whoever drives does it for others, too, and what failed concerns them.
Turn Engine::turn(bool urgent, bool asks_others) noexcept try {
    if (has_changes_.load(std::memory_order_seq_cst)) [[unlikely]] {
        make_changes();
    }
    if (aborted()) [[unlikely]] {
        fail_after_abort();
        return Turn::idle;
    }
    Turn turn = sets_.step(urgent, asks_others);
    if (messenger_.needs_turn()) [[unlikely]] {
        turn = busier(turn, turn_messages(urgent || joining_.load(std::memory_order_relaxed) > 0, asks_others));
    }
    if (turn == Turn::advanced) {
        still_since_ns_ = 0;
        lock_.tell_waiters();
    }
    return turn;
} catch (const std::bad_alloc&) {
    end_job_of_failure(ErrorCode::resource_exhausted, no_memory_to_go_on_);
    return Turn::idle;
} catch (const std::exception& error) {
    end_job_of_failure(ErrorCode::internal, error.what());
    return Turn::idle;
} catch (...) {
    end_job_of_failure(ErrorCode::internal, "an exception of an unknown type came while a rank drove its operations");
    return Turn::idle;
}

/// The next turn fails what is pending.
void Engine::end_job_of_failure(ErrorCode code, std::string_view text) noexcept {
    if (!aborted()) {
        raise(code, text);
    }
}

Turn Engine::turn_messages(bool somebody_waits, bool asks_others) noexcept {
    try {
        const Result<Messenger::Step> step = messenger_.step(somebody_waits, asks_others);
        if (step.is_ok()) {
            const Messenger::Step& found = step.value();
            return found.moved             ? Turn::advanced
                   : found.has_to_poll     ? Turn::polling
                   : found.is_transferring ? Turn::waiting
                                           : Turn::idle;
        }
        const Status failed = step.status().code() == ErrorCode::aborted ? explain(step.status()) : step.status();
        raise(failed.code(), failed.message());
    } catch (const std::bad_alloc&) {
        // Others count on what this rank was about to do.
        raise(ErrorCode::resource_exhausted, "a rank ran out of memory as it sent or received a message");
    } catch (...) {
        raise(ErrorCode::internal, "a rank could not go on with its sends and receives");
    }
    return Turn::idle;
}

/// The progress lock is held.
std::chrono::nanoseconds Engine::next_poll() {
    const std::int64_t now = base::monotonic_ns();
    still_since_ns_ = still_since_ns_ == 0 ? now : still_since_ns_;
    return poll_pause(std::chrono::nanoseconds(now - still_since_ns_));
}

/// From here on this rank writes to nobody's memory. Callers get their tensors back when no other rank writes to them
/// either; one that does not say so in time may be stopped in the middle of a write, so its reach is quarantined.
///
/// It needs no memory, since the want of it is a frequent reason for an abort: the reason is written where there is
/// room for it already, and what cannot be said for want of memory (to other hosts, to ruedarun) is left out.
void Engine::fail_after_abort() noexcept {
    if (!failed_.load(std::memory_order_relaxed)) {
        leave_batches();
    }
    sets_.fail_all(failed_with_);  // later: what was submitted in between
    messenger_.fail_all(failed_with_);
    failed_.store(true, std::memory_order_seq_cst);  // partner: abort_reason()
    lock_.tell_waiters();
}

/// Once: makes failed_with_.
void Engine::leave_batches() noexcept {
    const NoCancellation no_cancellation;
    block_.left_batches.store(1, std::memory_order_release);
    ring_everybody();  // who raised it in a process set rang its members
    const auto raised = control_.abort.reason_in_place();
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
            launcher_->report_abort(raised.text);  // before the program knows, and may end
        }
    } catch (const std::exception&) {
        // Without memory for it, ruedarun takes this rank's end for one like any other.
        static_cast<void>(raised);
    }
}

/// After an abort: it has neither left its batches nor the job, and lives. Who raised the abort may have seen the
/// consequence of a death before anybody has seen the death itself: a broken connection to another host.
bool Engine::may_write(std::uint32_t member) const {
    const base::RankBlock& other = control_.ranks[member];
    const auto state = static_cast<base::RankState>(other.state.load(std::memory_order_acquire));
    if (other.left_batches.load(std::memory_order_acquire) != 0 || state == base::RankState::left ||
        state == base::RankState::dead) {
        return false;
    }
    return !process_has_ended(other);
}

/// Drives progress until `done`, a deadline, or for ever. The progress lock is held.
template <class Done>
void Engine::drive(Done&& done, Deadline deadline) {
    const base::DefaultFloatingPoint default_floating_point;
    block_.attention.set(base::AttentionState::awake);
    Backoff backoff(caller_policy_);
    while (!done()) {
        if (deadline && Clock::now() >= *deadline) {
            return;
        }
        const Turn found = turn(/*urgent=*/true);
        if (found == Turn::advanced) {
            backoff.reset();
        } else if (!done() && ((found == Turn::polling && short_of_cores_) || !backoff.pause())) {
            sleep_as_caller(found, done, deadline);
            if (!has_to_poll(found)) {
                backoff.reset();  // rung, most likely; who polls goes on with his pauses until something moves
            }
        }
    }
}

template <class Done>
void Engine::sleep_as_caller(Turn last, Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    std::chrono::nanoseconds timeout = has_to_poll(last)      ? next_poll()
                                       : sets_.has_deferred() ? kDeferredSlice
                                                              : look_again_;
    lock_.sleep_as_caller([&] { return turn(/*urgent=*/true, /*asks_others=*/false) != Turn::advanced && !done(); },
                          no_longer_than(timeout, deadline));
}

void Engine::attend() { lock_.attend(); }

void Engine::poll() {
    lock_.poll([this](base::AttentionState before) {
        int advanced = 0;
        const base::DefaultFloatingPoint default_floating_point;
        while (advanced < kPollTurns && turn(/*urgent=*/false) == Turn::advanced) {
            ++advanced;
        }
        if (messenger_.needs_turn() && !aborted()) {
            static_cast<void>(turn_messages(/*somebody_waits=*/true, /*asks_others=*/false));
        }
        // The state was written before the turns above, so everything that was called since, or will be, rings the
        // background thread. If the background thread holds a batch back, its timer is all that is needed.
        const bool handed_on = before == base::AttentionState::asleep
                                   ? advanced < kPollTurns
                                   : before == base::AttentionState::holding_back && advanced == 0;
        return handed_on && !sets_.has_deferred();
    });
}

Status Engine::start(MessageRequest request, Completion& completion) {
    RUEDA_RETURN_IF_FAILED(messenger_.submit(std::move(request), completion));
    if (Lock::Held held(lock_); held) {
        const base::DefaultFloatingPoint default_floating_point;
        static_cast<void>(turn(/*urgent=*/false));
    } else {
        lock_.ring_holder();
    }
    attend();
    return {};
}

Status Engine::run(MessageRequest request, Completion& completion) {
    RUEDA_RETURN_IF_FAILED(messenger_.submit(std::move(request), completion));
    lock_.ring_holder();
    return wait(completion, -1);
}

void Engine::end_messages() {
    change([this] {
        try {
            messenger_.shut_down();
        } catch (const std::bad_alloc&) {
            raise(ErrorCode::resource_exhausted, "a rank ran out of memory as it shut down");
        }
    });
}

Status Engine::wait(const Completion& completion, double timeout_seconds) {
    if (completion.is_join) [[unlikely]] {
        wait_for_join(completion, deadline_in(timeout_seconds));
        attend();
    } else {
        static_cast<void>(wait_for([&] { return completion.done(); }, timeout_seconds));
    }
    return ended_or_timed_out(completion, timeout_seconds);
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

/// After a wait. The account is made without the progress lock and without waiting for anybody.
Status Engine::ended_or_timed_out(const Completion& completion, double seconds) const {
    // Shorter waits are looks in a loop, which need no account and would be slowed down by one: it visits every slot.
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

/// After a submit; the progress lock is held. True: finished at once, and `completion` is done if it has something to
/// say. Returns only when the operation has ended: the caller's completion must not go before.
bool Engine::finish_or_drive(ProcessSet& set, const Completion& completion) noexcept {
    // Two or three µs, far less than a sleep and a wake-up cost: peers that work in step come within that.
    constexpr int kLooks = 200;
    const base::DefaultFloatingPoint default_floating_point;
    if (set.finish_at_once(aborted() ? 0 : caller_policy_.spin_ns > 0 ? kLooks : 1)) {
        return true;
    }
    drive([&] { return completion.done(); }, std::nullopt);
    return false;
}

/// Where the mailbox is full, whoever drives posts the announcement in one of his turns: retry_deferred(). A rank that
/// reads the log late makes the room, and rings nobody, so the looks are kDeferredSlice apart.
Status Engine::announce_shutdown(ProcessSet& set, EndCall call, double timeout_seconds) {
    set.begin_to_await_end(call);
    if (!aborted()) {  // after a death nobody knows what state the registrar is in
        set.announce_shutdown();
    }
    return wait_for([&] { return set.has_announced_shutdown() || failed_.load(std::memory_order_seq_cst); },
                    timeout_seconds);
}

/// The world first: while ranks of it are missing, its report is the one that says so. What is left of further sets
/// then, they are waited for in.
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

/// A rank in join() has a part in what the others do, and no hurry of its own: it leaves their batches open as long as
/// its background thread would, which goes on for it while nothing moves. A caller's sleep would be rung for every
/// tensor that they announce.
void Engine::wait_for_join(const Completion& join, Deadline deadline) {
    const NoCancellation no_cancellation;
    const auto done = [&join] { return join.done(); };
    joining_.fetch_add(1, std::memory_order_relaxed);
    while (!join.done() && (!deadline || Clock::now() < *deadline)) {
        if (Lock::Held held(lock_); held) {
            drive_for_others(join, deadline);
        } else {
            wait_for_progress_lock(done, deadline);
            continue;
        }
        lock_.wait_until_moved(done, no_longer_than(look_again_, deadline));
    }
    joining_.fetch_sub(1, std::memory_order_relaxed);
}

/// As long as something moves, so that those who are blocked on it need not wake anybody here. The progress lock is
/// held.
void Engine::drive_for_others(const Completion& join, Deadline deadline) {
    const base::DefaultFloatingPoint default_floating_point;
    block_.attention.set(base::AttentionState::awake);
    Backoff backoff(caller_policy_);
    while (!join.done() && !lock_.has_waiters() && (!deadline || Clock::now() < *deadline)) {
        const Turn found = turn(/*urgent=*/false);
        if (found == Turn::advanced) {
            backoff.reset();
        } else if ((found == Turn::polling && short_of_cores_) || !backoff.pause()) {
            return;
        }
    }
}

template <class Done>
Status Engine::wait_for(Done&& done, double timeout_seconds) {
    const Deadline deadline = deadline_in(timeout_seconds);
    while (!done()) {
        if (Lock::Held held(lock_); held) {
            drive(done, deadline);
        } else {
            wait_for_progress_lock(done, deadline);
        }
        if (deadline && Clock::now() >= *deadline) {
            break;
        }
    }
    attend();  // who left the progress lock to a waiter may have left work with it
    return done() ? Status() : timed_out(timeout_seconds);
}

/// Another thread drives progress: another caller, or the background thread, which leaves when it sees a waiter.
template <class Done>
void Engine::wait_for_progress_lock(Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    constexpr int kSpins = 200;  // about a step of the background thread on a small batch
    lock_.wait_until_free(done, no_longer_than(look_again_, deadline), kSpins);
}

// ---- the background thread
// --------------------------------------------------------------------------------------------

void Engine::run_background() noexcept {
    while (!stopping_.load(std::memory_order_seq_cst)) {
        look_after_others();
        background_turns();
    }
}

void Engine::background_turns() noexcept {
    const auto timeout = [this]() -> std::chrono::nanoseconds {
        // The thread that has the lock may leave it with nothing pending, and ring nobody, while other hosts have to
        // hear of this rank.
        return sets_.anybody_has_to_poll() || messenger_.has_to_poll()
                   ? std::min<std::chrono::nanoseconds>(liveness_interval_, kTurnedAwayPause)
                   : liveness_interval_;
    };
    if (!lock_.lock_as_background(timeout)) {
        return;
    }
    const base::DefaultFloatingPoint default_floating_point;
    block_.attention.set(base::AttentionState::awake);  // or every publication of the others would be a system call
    Backoff backoff(background_policy_);
    Turn last = Turn::idle;
    while (!lock_.has_waiters() && !stopping_.load(std::memory_order_relaxed)) {
        last = turn(/*urgent=*/false);
        if (last == Turn::advanced) {
            backoff.reset();
            look_after_others_in_time();  // there may be work for seconds without a break
        } else if (!(last == Turn::waiting || (last == Turn::polling && !short_of_cores_)) || !backoff.pause()) {
            break;
        }
    }
    sleep_in_background(last);
}

/// The progress lock is held, and given up before the sleep.
void Engine::sleep_in_background(Turn last) noexcept {
    std::chrono::nanoseconds timeout = liveness_interval_;
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
        if (const auto hold_until_ns = sets_.hold_until_ns()) {  // of a set that had none open before
            timeout = std::min(timeout, until(*hold_until_ns));
        }
        // A batch that came in between may be held back from now on; a closed one has advanced.
        const auto is_under_way = [](Turn turn) { return turn == Turn::waiting || turn == Turn::polling; };
        const bool nothing_new =
            look != Turn::advanced && (look == last || (look == Turn::idle && last != Turn::holding) ||
                                       (is_under_way(look) && is_under_way(last)));
        return nothing_new ? std::optional(timeout) : std::nullopt;
    });
}

/// Cheap enough for every turn: the clock behind, by at most some milliseconds.
void Engine::look_after_others_in_time() noexcept {
    if (base::coarse_monotonic_ns() >= next_look_ns_) {
        look_after_others();
    }
}

/// A look that finds no memory is made again after the interval: a death is found again then.
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
        static_cast<void>(now);  // the next one may find some
    } catch (...) {
        end_job_of_failure(ErrorCode::internal, "a rank could not look after the others");
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
    // What was found is not found again, so it is told before the next look, which may find no memory.
    for (const SetList::Finding& finding : sets_.look(now)) {
        tell(finding.text, finding.shut_down);
    }
    if (const auto late = message_watch_.look(now, messenger_, [this, now] { return sets_.account_of_world(now); })) {
        if (!late->report_before.empty()) {
            tell(late->report_before, false);
        }
        tell(late->text, late->shut_down);
    }
}

/// The log line comes first: a program that hears of the abort may end at once. The job ends also where the line fails,
/// because memory is short.
void Engine::tell(const std::string& text, bool shut_down) noexcept {
    try {
        logger_.write(shut_down ? base::LogLevel::error : base::LogLevel::warning, text);
    } catch (...) {
        static_cast<void>(shut_down);
    }
    if (shut_down) {
        raise(ErrorCode::aborted, text);
    }
}

/// Without memory for more, the death itself is told.
void Engine::report_death(const Liveness::Death& death) {
    mark_dead(death.member);
    try {
        mark_the_dead();
        end_job(cause_of(death));
    } catch (const std::bad_alloc&) {
        raise(ErrorCode::aborted, death.text);
    }
}

void Engine::mark_dead(std::uint32_t member) {
    control_.ranks[member].state.store(static_cast<std::uint32_t>(base::RankState::dead), std::memory_order_release);
}

/// All that died together. Before the abort, so that nobody waits for them to leave their batch.
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

/// What the launcher knows of a rank of whatever host that this one still needs.
std::optional<std::string> Engine::launcher_cause(std::int64_t now) {
    if (launcher_ == nullptr) {
        return std::nullopt;
    }
    const auto standing = [this] {
        // acquire; partners: the release in Runtime::shutdown(), and who reads the end of the log. Where another rank's
        // orderly end came of this rank's shutdown, both were written before it, and the word came through the kernel.
        const auto state = static_cast<base::RankState>(block_.state.load(std::memory_order_acquire));
        return sets_.are_closed()                  ? Standing::closed
               : state == base::RankState::running ? Standing::running
                                                   : Standing::shutting_down;
    };
    return launcher_->cause(standing, now);
}

/// Its parent, the launcher, knows how it ended; itself it may have said why.
std::string Engine::cause_of(const Liveness::Death& death) const {
    const std::optional<std::string> word = launcher_ != nullptr ? launcher_->word_about(death.rank) : std::nullopt;
    if (!word) {
        return death.text;
    }
    return death.end_reason.empty() ? *word : *word + ": " + death.end_reason;
}

/// A connection that breaks is most often a rank that has ended: the launcher says which, and how. Without its word:
/// what another host has seen may itself come of a death here (MPI ends a process whose connection to the dead one
/// broke), and may be here before this host's own look, so both are named.
Status Engine::explain(const Status& failure) const {
    if (const std::optional<std::string> word = launcher_ != nullptr ? launcher_->word_of_failure() : std::nullopt) {
        return {ErrorCode::aborted, *word};
    }
    const std::vector<std::string> ended = liveness_.ended();
    return ended.empty()
               ? failure
               : Status(failure.code(), fmt::format("{}; here {} died", failure.message(), fmt::join(ended, " and ")));
}

}  // namespace rueda::core
