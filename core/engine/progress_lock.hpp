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

/// The product leaves no step out. A test of interleavings passes another type with the same members, to show that it
/// notices when a step is left out.
struct AllSteps {
    static constexpr bool no_second_look = false;           ///< at what is pending, after the lock was released
    static constexpr bool no_look_for_work = false;         ///< by a thread that leaves, after it wrote the attention
    static constexpr bool no_look_for_unread = false;       ///< by a thread that leaves with nothing pending
    static constexpr bool no_turned_away = false;           ///< the background thread does not say that it was
    static constexpr bool no_look_for_turned_away = false;  ///< attend() takes "asleep" for handed on
    static constexpr bool no_look_after_poll = false;       ///< poll() does not care whether it turned away
    static constexpr bool no_ring_for_holder = false;       ///< ring_holder() does nothing
    static constexpr bool no_ring_for_change = false;       ///< ring_for_change() does nothing
    static constexpr bool no_word_to_joining = false;       ///< tell_waiters() forgets those in join()
    static constexpr bool ring_before_release = false;
};

/// Decides which thread of a rank drives progress: whoever holds this lock. No thread blocks on it. A caller that finds
/// it taken waits for its own operation or for the lock; the background thread leaves it to such callers. A thread that
/// gives the lock up hands on what is left to do.
///
/// `Work` is what the lock's holder drives. It has these functions, which throw nothing:
/// - `pending()`: how many operations are pending, read with seq_cst. Any thread.
/// - `has_work()`: whether the holder could do something now. The lock's holder.
/// - `has_unread()` and `holder_has_unread()`: whether the log has entries that this rank has not read, which other
///   ranks may wait for. Any thread; the lock's holder.
/// - `is_stopping()`: whether the background thread is to end. Any thread.
///
/// Threads: the functions say which. All sleeps are also ended by Attention::ring_all().
template <class Atomics, class Work, class Steps = AllSteps>
class ProgressLock {
public:
    using Attention = base::Attention<Atomics>;
    using AttentionState = base::AttentionState;
    using Duration = std::chrono::nanoseconds;

    ProgressLock(Attention& attention, Work& work, const Steps& steps = {})
        : attention_(attention), work_(work), steps_(steps) {}

    /// The lock in the hands of a thread, if it could be taken. At the end of the scope the lock is left, if it was not
    /// given up before. Threads: the one that made it.
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

    /// seq_cst also where it fails: a thread that has submitted something and finds the lock taken relies on the second
    /// look of leave().
    [[nodiscard]] bool try_lock() {
        std::uint32_t expected = 0;
        return locked_.load(std::memory_order_seq_cst) == 0 &&
               locked_.compare_exchange_strong(expected, 1, std::memory_order_seq_cst);
    }
    /// Whether a caller waits for the lock.
    [[nodiscard]] bool has_waiters() const { return waiters_.load(std::memory_order_seq_cst) > 0; }

    /// After a submit without a wait, and after a wait: makes sure that a thread will be woken for what is left to do.
    void attend() {
        // "Asleep" means handed on, unless the background thread was turned away since, by a waiter who has left.
        const bool was_turned_away = !steps_.no_look_for_turned_away && turned_away();
        const bool handed_on = attention_.state() != AttentionState::awake && !was_turned_away;
        const bool is_left = (work_.pending() > 0 && !handed_on) || (was_turned_away && has_unread());
        if (is_left && try_lock()) {
            leave();
        }
    }
    /// After a submit: the holder, who may be about to sleep, looks once more. Partner: Attention::set() of the holder,
    /// who then looks for what was submitted before. If there is no holder, the caller is about to drive.
    void ring_holder() {
        if (steps_.no_ring_for_holder || locked_.load(std::memory_order_seq_cst) == 0) {
            return;
        }
        if (const AttentionState state = attention_.state(); state != AttentionState::awake) {
            attention_.ring(state);
        }
    }
    /// After a seq_cst store that asks the next turn for something, whoever takes it.
    void ring_for_change() {
        if (!steps_.no_ring_for_change) {
            attention_.ring_all();
        }
    }
    /// A caller waits until `done()`, until the lock is free, or for `look_again`. It is woken by tell_waiters() and by
    /// the thread that gives the lock up. If that thread dies, so does this process.
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
    /// A caller in join() leaves the progress to others and waits until something moves, until `done()`, or for
    /// `look_again`. It is woken by tell_waiters().
    template <class Done>
    void wait_until_moved(Done&& done, Duration look_again) {
        moved_.wait(done, look_again);
    }
    /// A caller that only looks takes the lock if it is free. `look(state)` gets the state that the rank had, and
    /// returns whether what is left to do is in the hands that the state speaks of.
    ///
    /// Where the background thread was rung, it comes for the lock. Turned away, it would have to be rung again at
    /// every poll, so this function then does nothing.
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
        if (!steps_.no_look_after_poll && turned_away()) {
            attention_.ring(AttentionState::asleep);
        }
    }

    // ---- the holder -------------------------------------------------------------------------------------------------

    /// Gives up the lock without handing anything on.
    void unlock() {
        locked_.store(0, std::memory_order_seq_cst);
        event_.notify();
    }
    /// Gives up the lock. What is left to do goes to a caller that waits, else to the background thread.
    void leave() {
        for (;;) {
            const bool to_background = work_.pending() > 0 && !has_waiters();
            attention_.set(to_background ? AttentionState::asleep : AttentionState::awake);
            // After the state was written: a thread that publishes later reads the state, and rings. With nothing
            // pending, other ranks may still wait until this rank has read the log, and may have rung the caller.
            const bool work_left = to_background ? !steps_.no_look_for_work && work_.has_work()
                                                 : !steps_.no_look_for_unread && work_.holder_has_unread();
            if (steps_.ring_before_release && work_left) {
                attention_.ring(AttentionState::asleep);
            }
            unlock();
            // The ring comes after the release, because the background thread would find the lock taken and sleep
            // again. The same may have happened to it after the ring of another thread.
            const bool was_turned_away = turned_away();
            const bool is_wanted = work_left || (was_turned_away && (to_background || has_unread()));
            if (is_wanted && !steps_.ring_before_release) {
                attention_.ring(AttentionState::asleep);
            }
            // A thread may have submitted something after the look at pending() above, and found the lock taken.
            const bool unattended = !steps_.no_second_look && work_.pending() > 0 && !has_waiters() &&
                                    attention_.state() == AttentionState::awake;
            if (!unattended || !try_lock()) {
                return;
            }
        }
    }
    /// Something has moved or ended: those who wait for it look.
    void tell_waiters() {
        event_.notify();
        if (!steps_.no_word_to_joining) {
            moved_.notify();
        }
    }
    /// After a change that ring_for_change() asked for: the background thread may be about to sleep for as long as was
    /// right before it, and a caller waits for the change.
    void tell_of_change() {
        attention_.ring(AttentionState::asleep);
        event_.notify();
    }
    /// A caller that drives progress sleeps if `nothing_new()`, and keeps the lock.
    template <class NothingNew>
    void sleep_as_caller(NothingNew&& nothing_new, Duration timeout) {
        attention_.sleep_as_caller_while(nothing_new, timeout);
    }

    // ---- the background thread --------------------------------------------------------------------------------------

    /// Takes the lock, unless a caller has it or waits for it. Else it sleeps, for `timeout()` at most, and returns
    /// false. It is woken by the thread that leaves the lock: leave(), poll().
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
    /// The holder gives the lock up and sleeps, for what `state` says. Before that, `look()` looks once more: it
    /// returns how long to sleep, or nothing if it found something new. The lock is released before the sleep, so that
    /// a caller can take it at any time.
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
        // A thread may have submitted something after the caller of this function looked at pending(), found the lock
        // taken, and left it to this thread.
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
    /// Partners: the stores of lock_as_background().
    [[nodiscard]] bool turned_away() const { return turned_away_.load(std::memory_order_seq_cst) != 0; }

    Attention& attention_;
    Work& work_;
    [[no_unique_address]] Steps steps_;
    Word locked_{0};
    Word waiters_{0};                       ///< callers that wait for the lock: the background thread leaves it to them
    Word turned_away_{0};                   ///< the background thread found the lock taken, and sleeps or is about to
    base::BasicLocalEvent<Atomics> event_;  ///< something has ended, or the lock is free
    base::BasicLocalEvent<Atomics> moved_;  ///< something has ended or moved; for callers in join()
};

}  // namespace rueda::core
