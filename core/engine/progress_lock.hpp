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

/// Says which steps of the hand-over are left out. The product leaves out none. A test of interleavings passes another
/// type with the same members, to show that the test notices a missing step.
struct AllSteps {
    /// a thread that releases the lock does not look at pending() again
    static constexpr bool no_second_look = false;
    /// a thread that releases the lock does not look at has_work()
    static constexpr bool no_look_for_work = false;
    static constexpr bool no_look_for_unread = false;  ///< no thread checks for unread entries of the log
    /// the background thread does not record that it was turned away
    static constexpr bool no_turned_away = false;
    static constexpr bool no_look_for_turned_away = false;     ///< attend() trusts the state "asleep"
    static constexpr bool no_look_after_poll = false;          ///< poll() does not wake the background thread
    static constexpr bool no_ring_for_holder = false;          ///< ring_holder() does nothing
    static constexpr bool no_ring_for_change = false;          ///< ring_for_change() does nothing
    static constexpr bool no_notification_to_joining = false;  ///< tell_waiters() does not notify callers in join()
    /// a thread that releases the lock wakes others before the release
    static constexpr bool ring_before_release = false;
};

/// Decides which thread of a rank drives progress: the thread that holds this lock. If a caller finds the lock taken,
/// it waits until its own operation is done or the lock is free. The background thread gives the lock to such callers.
/// A thread that releases the lock hands the remaining work to another thread.
///
/// `Work` is the work that the holder drives. It has these functions, which throw nothing:
/// - `pending()`: the number of pending operations, read with seq_cst. Any thread may call it.
/// - `has_work()`: whether the holder could do something now. Only the holder calls it.
/// - `has_unread()`: whether the log has entries that this rank has not read; other ranks may wait for that. Any thread
///   may call it.
/// - `holder_has_unread()`: a cheaper form of has_unread(). Only the holder calls it.
/// - `is_stopping()`: whether the background thread shall end. Any thread may call it.
///
/// Threads: the sections below say which threads call the functions. Attention::ring_all() ends the sleeps of the
/// holder and of the background thread. Callers that wait for the lock sleep on an event of this object; after an abort
/// they are woken by tell_waiters().
template <class Atomics, class Work, class Steps = AllSteps>
class ProgressLock {
public:
    using Attention = base::Attention<Atomics>;
    using AttentionState = base::AttentionState;
    using Duration = std::chrono::nanoseconds;

    ProgressLock(Attention& attention, Work& work, const Steps& steps = {})
        : attention_(attention), work_(work), steps_(steps) {}

    /// Holds the lock for a thread, if the thread could take it. At the end of the scope the lock is released, and
    /// remaining work is handed to another thread. Threads: only the thread that made this object.
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

    // ---- any thread -------------------------------------------------------------------------------------------------

    /// seq_cst even if it fails: if a thread has submitted an operation and finds the lock taken, it relies on the
    /// holder, which checks for submissions after it has released the lock (leave()).
    [[nodiscard]] bool try_lock() {
        std::uint32_t expected = 0;
        return locked_.load(std::memory_order_seq_cst) == 0 &&
               locked_.compare_exchange_strong(expected, 1, std::memory_order_seq_cst);
    }
    /// Whether a caller waits for the lock.
    [[nodiscard]] bool has_waiters() const { return waiters_.load(std::memory_order_seq_cst) > 0; }

    /// Runs after a submit without a wait, and after a wait. It ensures that some thread will be woken for the work
    /// that is left.
    void attend() {
        // The state "asleep" means that the work was handed to the background thread. But that thread may have been
        // turned away since, by a waiting thread that has left.
        const bool was_turned_away = !steps_.no_look_for_turned_away && turned_away();
        const bool handed_on = attention_.state() != AttentionState::awake && !was_turned_away;
        const bool is_left = (work_.pending() > 0 && !handed_on) || (was_turned_away && has_unread());
        if (is_left && try_lock()) {
            leave();
        }
    }
    /// Runs after a submit. The holder may be about to sleep; this makes it check for work once more. Pairs with
    /// Attention::set() of the holder, which checks for submissions after that. If no thread holds the lock, the
    /// submitting thread drives next.
    void ring_holder() {
        if (steps_.no_ring_for_holder || locked_.load(std::memory_order_seq_cst) == 0) {
            return;
        }
        if (const AttentionState state = attention_.state(); state != AttentionState::awake) {
            attention_.ring(state);
        }
    }
    /// Runs after a seq_cst store that requests something of the next turn. It wakes the threads that may run this
    /// turn.
    void ring_for_change() {
        if (!steps_.no_ring_for_change) {
            attention_.ring_all();
        }
    }
    /// A caller waits until `done()` returns true, until the lock is free, or for the time `look_again`. It is woken by
    /// tell_waiters() and by the thread that releases the lock. No other process is involved, so no death can prevent
    /// the wake-up.
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
    /// A caller in join() lets other threads drive progress. It waits until an operation makes progress, until `done()`
    /// returns true, or for the time `look_again`. It is woken by tell_waiters(), which the driving thread calls. That
    /// thread belongs to this process, so its death cannot prevent the wake-up.
    template <class Done>
    void wait_until_moved(Done&& done, Duration look_again) {
        moved_.wait(done, look_again);
    }
    /// A caller that polls takes the lock if it is free. `look(state)` gets the rank's attention state and does the
    /// work. It returns whether the thread that the state names will be woken for all work that is left.
    ///
    /// If the background thread has been woken, it is about to take the lock, so this function does nothing. If this
    /// function took the lock first, the background thread would be turned away and would have to be woken again at
    /// every poll.
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
        // The background thread may have been woken and turned away meanwhile.
        if (!steps_.no_look_after_poll && turned_away()) {
            attention_.ring(AttentionState::asleep);
        }
    }

    // ---- the holder -------------------------------------------------------------------------------------------------

    /// Releases the lock without handing work to another thread.
    void unlock() {
        locked_.store(0, std::memory_order_seq_cst);
        event_.notify();
    }
    /// Releases the lock. Remaining work goes to a caller that waits, or else to the background thread.
    void leave() {
        for (;;) {
            const bool to_background = work_.pending() > 0 && !has_waiters();
            attention_.set(to_background ? AttentionState::asleep : AttentionState::awake);
            // This check comes after the state was written: a thread that publishes later reads the state and wakes a
            // thread. If nothing is pending, other ranks may still wait until this rank has read the log. They may have
            // rung this thread, although this thread will not read the log.
            const bool work_left = to_background ? !steps_.no_look_for_work && work_.has_work()
                                                 : !steps_.no_look_for_unread && work_.holder_has_unread();
            if (steps_.ring_before_release && work_left) {
                attention_.ring(AttentionState::asleep);
            }
            unlock();
            // The wake-up comes after the release, because otherwise the background thread would find the lock taken
            // and sleep again. It may also have found the lock taken after another thread woke it.
            const bool was_turned_away = turned_away();
            const bool is_wanted = work_left || (was_turned_away && (to_background || has_unread()));
            if (is_wanted && !steps_.ring_before_release) {
                attention_.ring(AttentionState::asleep);
            }
            // Another thread may have submitted after pending() was read above, and may have found the lock taken.
            const bool unattended = !steps_.no_second_look && work_.pending() > 0 && !has_waiters() &&
                                    attention_.state() == AttentionState::awake;
            if (!unattended || !try_lock()) {
                return;
            }
        }
    }
    /// Called when an operation has made progress or has ended. Every caller that waits then checks whether its own
    /// operation is done.
    void tell_waiters() {
        event_.notify();
        if (!steps_.no_notification_to_joining) {
            moved_.notify();
        }
    }
    /// Runs after a change that ring_for_change() announced. A caller waits for the change. The background thread may
    /// be about to sleep for a time that was right before the change.
    void tell_of_change() {
        attention_.ring(AttentionState::asleep);
        event_.notify();
    }
    /// Lets a caller that drives progress sleep if `nothing_new()` returns true. The caller keeps the lock.
    template <class NothingNew>
    void sleep_as_caller(NothingNew&& nothing_new, Duration timeout) {
        attention_.sleep_as_caller_while(nothing_new, timeout);
    }

    // ---- the background thread --------------------------------------------------------------------------------------

    /// Takes the lock for the background thread, unless a caller holds the lock or waits for it. In these cases the
    /// background thread sleeps, for `timeout()` at most, and this function returns false. The thread that releases the
    /// lock in leave() or poll() wakes it. That thread belongs to this process, so its death cannot prevent the
    /// wake-up.
    template <class Timeout>
    [[nodiscard]] bool lock_as_background(Timeout&& timeout) {
        const std::uint32_t ticket = attention_.background_ticket();
        if (!has_waiters() && try_lock()) {
            return true;
        }
        turned_away_.store(steps_.no_turned_away ? 0 : 1, std::memory_order_seq_cst);
        const bool is_taken = locked_.load(std::memory_order_seq_cst) != 0 || has_waiters();
        if (is_taken && !work_.is_stopping()) {
            attention_.sleep_as_background(ticket, timeout());
        }
        turned_away_.store(0, std::memory_order_seq_cst);
        return false;
    }
    /// Called by the background thread while it holds the lock. It writes `state`, checks for work once more, and
    /// releases the lock before it sleeps, so that a caller can take the lock at any time. `look()` returns how long to
    /// sleep, or nothing if it found something new.
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

    /// For tests: calls `visit(word, name)` for each word.
    template <class Visit>
    void visit_words(Visit&& visit) {
        visit(locked_, "progress lock");
        visit(waiters_, "waiters");
        visit(turned_away_, "turned_away");
    }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;

    [[nodiscard]] bool has_unread() const { return !steps_.no_look_for_unread && work_.has_unread(); }
    /// Pairs with the stores in lock_as_background().
    [[nodiscard]] bool turned_away() const { return turned_away_.load(std::memory_order_seq_cst) != 0; }

    Attention& attention_;
    Work& work_;
    [[no_unique_address]] Steps steps_;
    Word locked_{0};
    Word waiters_{0};  ///< callers that wait for the lock
    /// whether the background thread found the lock taken, and sleeps or will sleep
    Word turned_away_{0};
    base::BasicLocalEvent<Atomics> event_;  ///< notified when an operation has ended or the lock is free
    /// notified when an operation has ended or made progress; for callers in join()
    base::BasicLocalEvent<Atomics> moved_;
};

}  // namespace rueda::core
