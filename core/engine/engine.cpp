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

/// While an announcement waits because the mailbox is full, a sleeping thread looks again after this time. The
/// registrar that empties the mailbox wakes no thread.
constexpr std::chrono::milliseconds kDeferredSlice{5};

/// Returns the pause before the next look for messages from other hosts, if no message has come for the time `still`.
/// The pause is a sixteenth of `still`, but at most a millisecond, so that it adds little to any wait. After a long
/// wait it is a hundredth of `still`, but at most ten milliseconds, which is not noticeable after such a wait. Each
/// look takes about 40 µs: a leader with nothing to do uses 0.9 % of a core in its first ten seconds.
std::chrono::nanoseconds poll_pause(std::chrono::nanoseconds still) {
    using std::chrono::microseconds;
    return std::max(std::clamp<std::chrono::nanoseconds>(still / 16, microseconds(20), microseconds(1000)),
                    std::min<std::chrono::nanoseconds>(still / 100, microseconds(10'000)));
}

/// If a leader's background thread finds the progress lock taken, it pauses for this time. The pause is a fraction of
/// the time between heartbeats.
constexpr std::chrono::milliseconds kTurnedAwayPause{20};

/// The maximum number of turns of one poll. Each turn moves about one chunk, which takes some tens of µs.
constexpr int kPollTurns = 64;

/// If a thread is cancelled while it holds the progress lock, the lock would never be released. So this class disables
/// cancellation around code that sleeps or writes. The rest of the engine has no cancellation point.
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

/// Shortens a sleep so that it ends at the deadline at the latest.
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
      // If the background thread spun, it might occupy the core that the trainer needs. So it yields.
      background_policy_{.spin_ns = 0, .yield_ns = caller_policy_.yield_ns},
      short_of_cores_(cores < static_cast<double>(members_)),
      look_again_(nanoseconds_of(config.look_again_seconds)),
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
    // The background thread blocks all signals that the program's own threads may handle.
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
    // The engine object itself is never freed, so its descriptors are closed here.
    liveness_.stop_watching();
    files_.stop();
    sets_.close_descriptors();
}

void Engine::end_pending(const Status& reason) {
    fail_pending(reason);
    lock_.tell_waiters();
    lock_.leave();
}

/// Threads that wait for the progress lock are woken and find their operations completed.
void Engine::end_for_good(const Status& reason) {
    fail_pending(reason);
    block_.attention.set(base::AttentionState::awake);
    lock_.tell_waiters();
}

/// Takes the progress lock, fails everything pending, and does not release the lock.
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
            // Without this abort, threads that wait for pending operations would wait for ever.
            raise(ErrorCode::resource_exhausted, "a rank ran out of memory while it removed a process set");
        }
        set.take_back_receives();
        sets_.world().look_after_messages_of(set);
        sets_.remove(set);
    });
}

/// Lets the thread that holds the progress lock make the change in its next turn, because that thread may hold the lock
/// for as long as its caller waits for an operation. `make` must not throw, because any thread may run it.
void Engine::change(std::function<void()> make) {
    std::atomic<bool> made{false};
    {
        const std::lock_guard lock(changes_mutex_);
        changes_.push_back([this, make = std::move(make), &made] {
            try {
                make();
            } catch (...) {  // the thread that asked for the change must not wait for ever
                end_job_of_failure(ErrorCode::internal, "a rank could not change the list of its process sets");
            }
            made.store(true, std::memory_order_seq_cst);  // pairs with the wait below
        });
    }
    has_changes_.store(true, std::memory_order_seq_cst);  // pairs with turn()
    lock_.ring_for_change();
    static_cast<void>(wait_for([&] { return made.load(std::memory_order_seq_cst); }, -1));
}

/// The caller holds the progress lock.
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

/// Throws nothing. The thread that drives progress works for other threads too, so a failure must reach all of them and
/// not only the caller of this function.
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
    end_job_of_failure(ErrorCode::internal, "an exception of an unknown type was thrown while a rank drove progress");
    return Turn::idle;
}

/// Aborts the job. The next turn fails everything that is pending.
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
        // Other ranks depend on what this rank was about to do.
        raise(ErrorCode::resource_exhausted, "a rank ran out of memory while it sent or received a message");
    } catch (...) {
        raise(ErrorCode::internal, "a rank could not go on with its sends and receives");
    }
    return Turn::idle;
}

/// The caller holds the progress lock.
std::chrono::nanoseconds Engine::next_poll() {
    const std::int64_t now = base::monotonic_ns();
    still_since_ns_ = still_since_ns_ == 0 ? now : still_since_ns_;
    return poll_pause(std::chrono::nanoseconds(now - still_since_ns_));
}

/// After this call, this rank writes to no other rank's memory. Callers get their tensors back when no other rank
/// writes to these tensors either. If a rank does not confirm in time that it has stopped writing, it may be stopped in
/// the middle of a write. Then the memory that it can reach is quarantined.
///
/// This function allocates no memory, because lack of memory is a frequent reason for an abort. The memory for the
/// reason was allocated earlier. Messages that would need more memory (to other hosts, to ruedarun) are left out.
void Engine::fail_after_abort() noexcept {
    if (!failed_.load(std::memory_order_relaxed)) {
        leave_batches();
    }
    sets_.fail_all(failed_with_);  // fails operations that were submitted in between
    messenger_.fail_all(failed_with_);
    failed_.store(true, std::memory_order_seq_cst);  // pairs with abort_reason()
    lock_.tell_waiters();
}

/// Leaves the batches after an abort, and sets failed_with_. Runs once.
void Engine::leave_batches() noexcept {
    const NoCancellation no_cancellation;
    block_.left_batches.store(1, std::memory_order_release);
    ring_everybody();  // if a process set raised the abort, only the set's members were woken
    const auto raised = control_.abort.reason_in_place();
    write_recorders(raised.text, /*at_end=*/true);  // before the program knows of the abort, and may end
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
            launcher_->report_abort(raised.text);  // sent before the program learns of the abort and may end
        }
    } catch (const std::exception&) {
        // If there is no memory for the message, ruedarun treats this rank's end like any other.
        static_cast<void>(raised);
    }
}

/// After an abort: whether the rank is alive and has left neither its batches nor the job. Such a rank may still write
/// to the memory of others. /proc is read, because the rank that raised the abort may have seen only the consequence of
/// a death, for example a broken connection to another host, before any rank saw the death itself.
bool Engine::may_write(std::uint32_t member) const {
    const base::RankBlock& other = control_.ranks[member];
    const auto state = static_cast<base::RankState>(other.state.load(std::memory_order_acquire));
    if (other.left_batches.load(std::memory_order_acquire) != 0 || state == base::RankState::left ||
        state == base::RankState::dead) {
        return false;
    }
    return !process_has_ended(other);
}

/// Drives progress until `done` returns true or the deadline has passed; an empty deadline means no limit. A thread
/// with Haste::none returns when another caller waits, or when no operation makes progress. The caller holds the
/// progress lock.
template <class Done>
void Engine::drive(Done&& done, Deadline deadline, Haste haste) {
    const base::DefaultFloatingPoint default_floating_point;
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
            sleep_as_caller(found, done, deadline);
            if (!has_to_poll(found)) {
                // Another thread probably woke this one. A rank that polls keeps its pauses until an operation makes
                // progress.
                backoff.reset();
            }
        }
    }
}

template <class Done>
void Engine::sleep_as_caller(Turn last, Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    const std::chrono::nanoseconds timeout = has_to_poll(last)      ? next_poll()
                                             : sets_.has_deferred() ? kDeferredSlice
                                                                    : look_again_;
    lock_.sleep_as_caller([&] { return turn(/*urgent=*/true, /*asks_others=*/false) != Turn::advanced && !done(); },
                          no_longer_than(timeout, deadline));
}

void Engine::attend() { lock_.attend(); }

void Engine::poll() {
    lock_.poll([this](base::AttentionState before) {
        const base::DefaultFloatingPoint default_floating_point;
        int advanced = 0;
        while (advanced < kPollTurns && turn(/*urgent=*/false) == Turn::advanced) {
            ++advanced;
        }
        if (messenger_.needs_turn() && !aborted()) {
            static_cast<void>(turn_messages(/*somebody_waits=*/true, /*asks_others=*/false));
        }
        // The attention state was set before the turns above. So everything that was called since then, or arrives
        // later, wakes the background thread. If the background thread holds a batch back, this is true only while its
        // timer is set for that batch.
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
    request.is_blocking = true;
    RUEDA_RETURN_IF_FAILED(messenger_.submit(std::move(request), completion));
    lock_.ring_holder();
    return wait(completion, -1);
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
    const auto done = [&completion] { return completion.done(); };
    if (completion.is_join) [[unlikely]] {
        joining_.fetch_add(1, std::memory_order_relaxed);
        static_cast<void>(wait_for(done, timeout_seconds, Haste::none));
        joining_.fetch_sub(1, std::memory_order_relaxed);
    } else {
        static_cast<void>(wait_for(done, timeout_seconds));
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

/// Runs after a wait. If the wait timed out, it collects what the operation waits for, without the progress lock and
/// without waiting for other threads.
Status Engine::ended_or_timed_out(const Completion& completion, double seconds) const {
    // A shorter wait is one poll in a loop. It needs no account of what is pending. An account visits every slot, so
    // making one would slow the loop down.
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

/// Runs after a submit, with the progress lock held. Returns true if the operation finished at once; if it has a
/// result, `completion` is then done. Otherwise it returns false, but only after the operation has ended, because the
/// caller's completion must stay valid until then.
bool Engine::finish_or_drive(ProcessSet& set, const Completion& completion) noexcept {
    // This takes two or three µs, far less than the cost of a sleep and a wake-up. If ranks work in step, their
    // announcements arrive within this time.
    constexpr int kLooks = 200;
    const base::DefaultFloatingPoint default_floating_point;
    if (set.finish_at_once(aborted() ? 0 : caller_policy_.spin_ns > 0 ? kLooks : 1)) {
        return true;
    }
    drive([&] { return completion.done(); }, std::nullopt);
    return false;
}

/// If the mailbox is full, the thread that drives progress posts the announcement in one of its later turns:
/// Announcer::retry_deferred(). The mailbox is emptied after a late rank has read the log, and that rank wakes no
/// thread. So this function looks again every kDeferredSlice.
Status Engine::announce_shutdown(ProcessSet& set, EndCall call, double timeout_seconds) {
    set.begin_to_await_end(call);
    if (!aborted()) {  // after a death, the registrar's state is unknown, so nothing is posted
        set.announce_shutdown();
    }
    return wait_for([&] { return set.has_announced_shutdown() || failed_.load(std::memory_order_seq_cst); },
                    timeout_seconds);
}

/// Waits for the world first: while ranks of the world are missing, its stall report says so. The other sets have the
/// time that remains.
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

/// Sleeps until an operation has made progress, or has ended.
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
    attend();  // if this thread gave the progress lock to a waiting thread, it may have left work undone
    return done() ? Status() : timed_out(timeout_seconds);
}

/// Another thread drives progress: either another caller, or the background thread, which releases the lock when it
/// sees that a thread waits.
template <class Done>
void Engine::wait_for_progress_lock(Done&& done, Deadline deadline) {
    const NoCancellation no_cancellation;
    constexpr int kSpins = 200;  // about as long as one step of the background thread on a small batch
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
    // If the thread that holds the progress lock releases it with nothing pending, it wakes no thread. But other hosts
    // must hear from this rank even then.
    const auto timeout = [this]() -> std::chrono::nanoseconds {
        return sets_.anybody_has_to_poll() || messenger_.has_to_poll()
                   ? std::min<std::chrono::nanoseconds>(liveness_interval_, kTurnedAwayPause)
                   : liveness_interval_;
    };
    if (!lock_.lock_as_background(timeout)) {
        return;
    }
    const base::DefaultFloatingPoint default_floating_point;
    // Without this, every publication of another rank would make a system call to wake this thread.
    block_.attention.set(base::AttentionState::awake);
    Backoff backoff(background_policy_);
    Turn last = Turn::idle;
    while (!lock_.has_waiters() && !stopping_.load(std::memory_order_relaxed)) {
        last = turn(/*urgent=*/false);
        if (last == Turn::advanced) {
            backoff.reset();
            look_after_others_in_time();  // there may be seconds of work without a pause
        } else if (!(last == Turn::waiting || (last == Turn::polling && !short_of_cores_)) || !backoff.pause()) {
            break;
        }
    }
    sleep_in_background(last);
}

/// The background thread holds the progress lock. This function releases it before the sleep.
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
        if (const auto hold_until_ns = sets_.hold_until_ns()) {  // of a set that did not hold back a batch before
            timeout = std::min(timeout, until(*hold_until_ns));
        }
        // If a batch was called in between, it may be held back from now on. If the batch was closed, the turn has
        // advanced.
        const auto is_under_way = [](Turn turn) { return turn == Turn::waiting || turn == Turn::polling; };
        const bool nothing_new =
            look != Turn::advanced && (look == last || (look == Turn::idle && last != Turn::holding) ||
                                       (is_under_way(look) && is_under_way(last)));
        return nothing_new ? std::optional(timeout) : std::nullopt;
    });
}

/// The coarse clock is cheap enough to be read in every turn. It is late by a few milliseconds at most.
void Engine::look_after_others_in_time() noexcept {
    if (base::coarse_monotonic_ns() >= next_look_ns_) {
        look_after_others();
    }
}

/// If a check runs out of memory, it is repeated after the interval. If a dead rank could not be reported, it is found
/// again then.
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
        static_cast<void>(now);  // the next check may find enough memory
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
    // Each finding is returned only once. So this function reports all of them before the next check, which may run out
    // of memory.
    for (const SetList::Finding& finding : sets_.look(now)) {
        tell(finding);
    }
    const MessageWatch::Source source{
        [this, now] { return sets_.account_of_world(now); },
        [this, now](std::span<StallReport::Rank> ranks) { return sets_.add_stacks_of_peers(ranks, now); }};
    if (const auto late = message_watch_.look(now, messenger_, source)) {
        if (!late->report_before.empty()) {
            tell({late->report_before, false});
        }
        tell({late->text, late->shut_down, late->report, {}, late->ends_job});
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
    stack_responder_.look();  // after the questions, so that this rank's own one is answered soon
}

/// Writes the log line first, because a program that learns of the abort may end at once. The job ends even if there is
/// no memory for the line.
void Engine::tell(const SetList::Finding& finding) noexcept {
    try {
        if (!finding.text.empty()) {
            logger_.write(finding.shut_down ? base::LogLevel::error : base::LogLevel::warning, finding.text);
        }
        if (finding.report != nullptr) {
            handle_report(finding);
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
    // If the job ends, every rank writes its own flight recorder a little later.
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

/// Writes the flight recorders to files, if the user asked for files.
void Engine::write_recorders(std::string_view reason, bool at_end) noexcept {
    warn_about_files(at_end ? recorder_files_.write_at_end(reason) : recorder_files_.write_all(reason));
}

void Engine::warn_about_files(const std::optional<std::string>& complaint) noexcept {
    if (complaint) {
        try {
            logger_.warning("RUEDA_DIAGNOSTICS_DIR: {}", *complaint);
        } catch (...) {
            // There is no memory for the warning. The files are an extra, and the job goes on without them.
        }
    }
}

/// If there is no memory for the full text, only the death itself is reported.
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

/// Marks all ranks that died together as dead. This is done before the abort, so that no rank waits for a dead rank to
/// leave its batch.
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

/// Returns what the launcher knows about the end of a rank that this rank still needs. The rank may be on any host.
std::optional<std::string> Engine::launcher_cause(std::int64_t now) {
    if (launcher_ == nullptr) {
        return std::nullopt;
    }
    const auto standing = [this] {
        // Acquire: pairs with the release in Runtime::shutdown(), and with the thread that reads the end of the log. If
        // another rank ended normally because this rank shut down, both values were written before that rank ended, and
        // the notification came through the kernel.
        const auto state = static_cast<base::RankState>(block_.state.load(std::memory_order_acquire));
        return sets_.are_closed()                  ? Standing::closed
               : state == base::RankState::running ? Standing::running
                                                   : Standing::shutting_down;
    };
    return launcher_->cause(standing, now);
}

/// The launcher is the rank's parent, so it knows how the rank ended. The rank itself may have left an end reason.
std::string Engine::cause_of(const Liveness::Death& death) const {
    const std::optional<std::string> notification =
        launcher_ != nullptr ? launcher_->notification_about(death.rank) : std::nullopt;
    if (!notification) {
        return death.text;
    }
    return death.end_reason.empty() ? *notification : *notification + ": " + death.end_reason;
}

/// A connection that breaks usually means that a rank has ended. The launcher tells which one, and how. Without such a
/// notification, the text names the failure on the other host and the deaths on this host. The failure that another
/// host saw may be the consequence of a death here (MPI ends a process whose connection to the dead process broke), and
/// it may arrive before this host notices that death.
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
