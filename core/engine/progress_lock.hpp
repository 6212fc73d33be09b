// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/shared_memory/attention.hpp"
#include "base/shared_memory/local_event.hpp"

namespace rueda::core {

/// Each field says whether one step is left out when a thread hands the progress to another thread. Rueda itself uses
/// this type, which leaves out no step. An interleaving test passes a type that leaves out one step, to show that the
/// test notices the missing step.
struct AllSteps {
    /// if true, a thread that releases the lock does not look at pending() again
    static constexpr bool no_second_look = false;
    /// if true, a thread that releases the lock does not look at has_work()
    static constexpr bool no_look_for_work = false;
    static constexpr bool no_look_for_unread = false;  ///< if true, no thread checks for unread entries of the log
    /// if true, the background thread does not record that it found the lock taken
    static constexpr bool no_turned_away = false;
    static constexpr bool no_look_for_turned_away = false;  ///< if true, attend() trusts the state "asleep"
    static constexpr bool no_look_after_poll = false;       ///< if true, poll() does not wake the background thread
    static constexpr bool no_ring_for_holder = false;       ///< if true, ring_holder() does nothing
    static constexpr bool no_ring_for_change = false;       ///< if true, ring_for_change() does nothing
    /// if true, tell_waiters() does not notify callers in join()
    static constexpr bool no_notification_to_joining = false;
    /// if true, a thread that releases the lock wakes others before the release
    static constexpr bool ring_before_release = false;
};

/// Decides which thread of a rank drives progress: only the thread that holds this lock does. A caller that finds the
/// lock taken waits until its own operation is done, or until the lock is free. While such callers wait, the background
/// thread does not take the lock. A thread that releases the lock hands remaining work to another thread.
///
/// `Work` is what the holder drives. `Work` has these functions, which throw nothing:
/// - `pending()`: the number of pending operations, read with seq_cst. Any thread.
/// - `has_work()`: whether the holder could do something now. Only the holder.
/// - `has_unread()`: whether the log has entries that this rank has not read; other ranks may wait for this rank to
///   read them. Any thread.
/// - `holder_has_unread()`: a cheaper form of has_unread(). Only the holder.
/// - `is_stopping()`: whether the background thread must end. Any thread.
///
/// Threads: see each function. Attention::ring_all() ends the sleep of the holder and the sleep of the background
/// thread. It does not wake callers that wait for the lock, because they sleep on an event of this object. After an
/// abort, tell_waiters() wakes them.
template <class Atomics, class Work, class Steps = AllSteps>
class ProgressLock {
public:
    using Attention = base::Attention<Atomics>;
    using AttentionState = base::AttentionState;
    using Duration = std::chrono::nanoseconds;

    ProgressLock(Attention& attention, Work& work, const Steps& steps = {})
        : attention_(attention), work_(work), steps_(steps) {}

    /// Holds the lock for a thread, if the thread could take it. At the end of the scope, the lock is released and
    /// remaining work is handed to another thread. Threads: only the thread that created this object.
    class Held {
    public:
        explicit Held(ProgressLock& lock) : lock_(lock.try_lock() ? &lock : nullptr) {}
        ~Held() { leave(); }
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;

        [[nodiscard]] explicit operator bool() const { return lock_ != nullptr; }
        void leave() noexcept {
            if (lock_ != nullptr) {
                std::exchange(lock_, nullptr)->leave();
            }
        }

    private:
        ProgressLock* lock_;
    };

    // Any thread may call the functions from try_lock() to poll().

    /// The load of the lock's state is seq_cst, even for a caller that finds the lock taken: this caller may just have
    /// submitted an operation. Either the load sees the lock as free, or the holder sees the operation when it has
    /// released the lock (leave()).
    [[nodiscard]] bool try_lock() {
        std::uint32_t expected = 0;
        return locked_.load(std::memory_order_seq_cst) == 0 &&
               locked_.compare_exchange_strong(expected, 1, std::memory_order_seq_cst);
    }
    /// Whether a thread of the program (a caller) waits for the lock.
    [[nodiscard]] bool has_waiters() const { return waiters_.load(std::memory_order_seq_cst) > 0; }

    /// Makes sure that a thread will be woken for the remaining work. Call this after a submit without a wait, and
    /// after a wait.
    void attend() {
        // In the state `asleep`, the work was already handed to the background thread. But the background thread may
        // have woken while another caller held the lock, and gone to sleep again. In that case it must be woken once
        // more.
        const bool was_turned_away = !steps_.no_look_for_turned_away && turned_away();
        const bool handed_on = attention_.state() != AttentionState::awake && !was_turned_away;
        const bool is_left =
            (work_.pending() > 0 && !handed_on) || (was_turned_away && !has_been_checked() && has_unread());
        if (is_left && try_lock()) {
            leave();
        }
    }
    /// Call this after a submit. If the holder is about to sleep, this function makes the holder check for work once
    /// more. The holder stores its attention state with Attention::set() and then checks for work. Either the holder
    /// sees the work, or this function sees the state and wakes the holder. If no thread holds the lock, the calling
    /// thread will drive progress itself.
    void ring_holder() {
        if (steps_.no_ring_for_holder || locked_.load(std::memory_order_seq_cst) == 0) {
            return;
        }
        if (const AttentionState state = attention_.state(); state != AttentionState::awake) {
            attention_.ring(state);
        }
    }
    /// Call this after a seq_cst store that requests something from the next turn. Wakes the threads that may run that
    /// turn.
    void ring_for_change() {
        if (!steps_.no_ring_for_change) {
            attention_.ring_all();
        }
    }
    /// Lets a caller wait until `done()` is true, until the lock is free, or for the time `look_again`. The caller is
    /// woken by the thread that calls tell_waiters() or releases the lock. That thread belongs to the same process, so
    /// the death of another process cannot prevent the wake-up.
    template <class Done>
    void wait_until_free(Done&& done, Duration look_again, int spins = 0) {
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        const auto ready = [&] { return done() || locked_.load(std::memory_order_seq_cst) == 0; };
        for (int spin = 0; spin < spins && !ready(); ++spin) {
            Atomics::pause();
        }
        if (!ready()) {
            event_.wait(ready, look_again);
        }
        waiters_.fetch_sub(1, std::memory_order_seq_cst);
    }
    /// Lets a caller in join() wait until an operation makes progress, until `done()` is true, or for the time
    /// `look_again`. The caller is woken by the thread that calls tell_waiters(). That thread belongs to the same
    /// process, so the death of another process cannot prevent the wake-up.
    template <class Done>
    void wait_until_moved(Done&& done, Duration look_again) {
        moved_.wait(done, look_again);
    }
    /// For a caller that polls: takes the lock if it is free, and calls `look(state)`, which does the work. `state` is
    /// the rank's attention state, by which other threads know which thread to wake. `look` returns true if no work is
    /// left, so that the threads of this rank may sleep until another thread wakes them.
    ///
    /// If the background thread was just woken, it is about to take the lock, and poll() does nothing. Otherwise poll()
    /// could take the lock first. The background thread would then find the lock taken, and each poll() would have to
    /// wake it again.
    template <class Look>
    void poll(Look&& look) {
        if (attention_.background_is_rung() || !try_lock()) {
            return;
        }
        const bool handed_on = look(attention_.state());
        if (!handed_on || work_.pending() == 0) {
            leave();
            return;
        }
        unlock();
        // While this thread held the lock, another thread may have woken the background thread, which then found the
        // lock taken.
        if (!steps_.no_look_after_poll && turned_away()) {
            attention_.ring(AttentionState::asleep);
        }
    }

    // Only the holder may call the functions from unlock() to sleep_as_caller().

    /// Releases the lock without handing work to another thread.
    void unlock() {
        locked_.store(0, std::memory_order_seq_cst);
        event_.notify();
    }
    /// Releases the lock. Remaining work goes to a waiting caller, or else to the background thread.
    void leave() {
        for (;;) {
            const bool to_background = work_.pending() > 0 && !has_waiters();
            attention_.set(to_background ? AttentionState::asleep : AttentionState::awake);
            // The attention state is stored before the check for work below. So a thread that publishes work after the
            // check reads the new state, and wakes a thread of this rank.
            //
            // The check is needed even if this rank has no pending operation. Other ranks may wait until this rank has
            // read the log. They may have woken this thread, which is about to release the lock without reading it.
            const bool work_left = to_background ? !steps_.no_look_for_work && work_.has_work()
                                                 : !steps_.no_look_for_unread && work_.holder_has_unread();
            if (steps_.ring_before_release && work_left) {
                attention_.ring(AttentionState::asleep);
            }
            unlock();
            // The background thread is woken after the release of the lock. If it were woken earlier, it might find the
            // lock taken and sleep again. It must also be woken if it has already found the lock taken.
            const bool is_wanted =
                work_left || (turned_away() && (to_background || (must_check_for_turned_away() && has_unread())));
            if (is_wanted && !steps_.ring_before_release) {
                attention_.ring(AttentionState::asleep);
            }
            // Another thread may have submitted an operation after pending() was read above. If it found the lock
            // taken, it left the operation to this thread.
            const bool unattended = !steps_.no_second_look && work_.pending() > 0 && !has_waiters() &&
                                    attention_.state() == AttentionState::awake;
            if (!unattended || !try_lock()) {
                return;
            }
        }
    }
    /// Call this when an operation has made progress or has ended. Every waiting caller then checks whether its own
    /// operation is done.
    void tell_waiters() {
        event_.notify();
        if (!steps_.no_notification_to_joining) {
            moved_.notify();
        }
    }
    /// Call this after a change that ring_for_change() announced. Wakes the caller that waits for the change. Also
    /// wakes the background thread, which may have chosen the length of its sleep before the change.
    void tell_of_change() {
        attention_.ring(AttentionState::asleep);
        event_.notify();
    }
    /// Lets the driving caller sleep for `timeout`, if `nothing_new()` returns true. The caller keeps the lock.
    template <class NothingNew>
    void sleep_as_caller(NothingNew&& nothing_new, Duration timeout) {
        attention_.sleep_as_caller_while(nothing_new, timeout);
    }

    // Only the background thread may call lock_as_background() and sleep_as_background().

    /// Takes the lock for the background thread, and returns true. But if a caller holds the lock or waits for it, the
    /// thread sleeps for at most `timeout()`, and the function returns false. The sleep is ended by the thread that
    /// releases the lock in leave() or poll(). That thread belongs to the same process, so the death of another process
    /// cannot prevent the wake-up.
    template <class Timeout>
    [[nodiscard]] bool lock_as_background(Timeout&& timeout) {
        const std::uint32_t ticket = attention_.background_ticket();
        if (!has_waiters() && try_lock()) {
            return true;
        }
        turned_away_.store(steps_.no_turned_away ? kNotTurnedAway : kTurnedAway, std::memory_order_seq_cst);
        const bool is_taken = locked_.load(std::memory_order_seq_cst) != 0 || has_waiters();
        if (is_taken && !work_.is_stopping()) {
            attention_.sleep_as_background(ticket, timeout());
        }
        turned_away_.store(kNotTurnedAway, std::memory_order_seq_cst);
        return false;
    }
    /// Lets the background thread, which holds the lock, sleep in the attention state `state`. The function stores
    /// `state`, calls `look()`, and releases the lock before the sleep, so that callers can take it. `look()` checks
    /// for work once more, and returns how long to sleep, or nothing if there is new work.
    template <class Look>
    void sleep_as_background(AttentionState state, Look&& look) {
        const std::uint32_t ticket = attention_.background_ticket();
        attention_.set(state);
        const std::optional<Duration> timeout = look();
        const bool sleeps = timeout && !has_waiters();
        if (!sleeps) {
            attention_.set(AttentionState::awake);
        }
        unlock();
        // After this thread chose `state`, another thread may have submitted an operation, found the lock taken, and
        // left the work to this thread.
        const bool unattended = !steps_.no_second_look && state == AttentionState::awake && work_.pending() > 0;
        if (sleeps && !unattended && !work_.is_stopping()) {
            attention_.sleep_as_background(ticket, *timeout);
        }
    }

    /// For interleaving tests: calls `visit(word, name)` for each atomic word.
    template <class Visit>
    void visit_words(Visit&& visit) {
        visit(locked_, "progress lock");
        visit(waiters_, "waiters");
        visit(turned_away_, "turned_away");
    }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;

    // the values of `turned_away_`
    static constexpr std::uint32_t kNotTurnedAway = 0;
    /// the background thread has found the lock taken, and now sleeps or is about to sleep
    static constexpr std::uint32_t kTurnedAway = 1;
    /// like kTurnedAway, and a thread that released the lock later has checked for unread entries
    static constexpr std::uint32_t kTurnedAwayAndChecked = 2;

    [[nodiscard]] bool has_unread() const { return !steps_.no_look_for_unread && work_.has_unread(); }
    /// The loads of `turned_away_` are seq_cst, and pair with the stores in lock_as_background().
    [[nodiscard]] bool turned_away() const { return turned_away_.load(std::memory_order_seq_cst) != kNotTurnedAway; }
    [[nodiscard]] bool has_been_checked() const {
        return turned_away_.load(std::memory_order_seq_cst) == kTurnedAwayAndChecked;
    }
    /// Whether the caller, which has just released the lock, must check for unread entries in place of the background
    /// thread. The background thread missed only what was published before it found the lock taken; what is published
    /// later wakes it. So one check is enough for each time that it was turned away, and it must come after this call.
    /// If the background thread was turned away again before the exchange, the check covers both times.
    [[nodiscard]] bool must_check_for_turned_away() {
        std::uint32_t expected = kTurnedAway;
        return turned_away_.load(std::memory_order_seq_cst) == kTurnedAway &&
               turned_away_.compare_exchange_strong(expected, kTurnedAwayAndChecked, std::memory_order_seq_cst);
    }

    Attention& attention_;
    Work& work_;
    [[no_unique_address]] Steps steps_;
    Word locked_{0};
    Word waiters_{0};  ///< the number of callers that wait for the lock
    Word turned_away_{kNotTurnedAway};
    /// notified when an operation has ended or made progress, and when the lock is free
    base::BasicLocalEvent<Atomics> event_;
    /// notified when an operation has ended or made progress; for callers in join()
    base::BasicLocalEvent<Atomics> moved_;
};

}  // namespace rueda::core
