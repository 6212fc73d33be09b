// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"

namespace rueda::base {

/// Says which events must wake a rank.
enum class AttentionState : std::uint32_t {
    awake = 0,  ///< no event needs to wake the rank, because one of its threads checks for events itself, or because no
                ///< operation is pending
    asleep = 1,   ///< some events need not wake the rank: operations are pending, but no caller waits for them
    blocked = 2,  ///< every event must wake the rank at once: a caller waits, or a task is in progress
    /// the background thread sleeps for a short time, so that more operations can join the open batch
    holding_back = 3,
};

/// One rank's cache line in shared memory. It shows whether the rank sleeps, and contains two futexes on which threads
/// of the rank sleep. Two threads may sleep at the same time: a caller that drives progress (steps the rank's tasks),
/// and the background thread. `state` says which of them must be woken.
///
/// No change is missed by a thread that goes to sleep, because of Dekker's pattern: both sides write, then read. The
/// sleeping thread writes `state`, then checks its condition. The publishing thread publishes a change, then reads
/// `state`. All four accesses, including the publication, are seq_cst. If the publishing thread still reads the old
/// state, it published its change before the sleeping thread wrote `state`. Then the sleeping thread's check sees the
/// change.
///
/// A *bell* is a futex with a flag `rung`. This object has one bell for the caller that drives progress, and one for
/// the background thread. To ring a bell means to wake the thread that sleeps on its futex. Ringing is a system call,
/// and the flag avoids needless calls:
/// - Before a thread sleeps, it takes a *ticket* (it reads the number of rings so far), then clears `rung`, then checks
///   its condition. The futex does not let it sleep if the bell was rung after it took the ticket.
/// - A publishing thread publishes, then sets `rung`, then rings. If it finds `rung` already set, it does not ring.
///
/// A publishing thread that finds `rung` set need not ring. Either `rung` was set before the sleeping thread cleared
/// it: then the publication also came before the check that follows the clearing, and the check sees it. Or another
/// publishing thread set `rung` after the clearing: then that thread rings, and its ring ends the sleep.
///
/// Threads: only the thread that holds the rank's progress lock writes `state`. Only the thread that goes to sleep
/// takes its ticket (the number of wake-ups so far). Any thread may call the other functions.
template <class Atomics>
class alignas(kCacheLine) Attention {
public:
    [[nodiscard]] AttentionState state() const {
        return static_cast<AttentionState>(state_.load(std::memory_order_seq_cst));
    }
    /// Stores the state, which publishing threads read by state(). Both functions use seq_cst (see the class comment).
    void set(AttentionState state) {
        if (this->state() != state) {
            state_.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
        }
    }

    /// caller_ticket() and background_ticket() return a ticket: how often the thread was woken so far. The thread
    /// passes the ticket to its sleep function. It must take the ticket before it calls set() and before its last
    /// check.
    [[nodiscard]] std::uint32_t caller_ticket() { return caller_.ticket(); }
    [[nodiscard]] std::uint32_t background_ticket() { return background_.ticket(); }
    /// sleep_as_caller() and sleep_as_background() sleep until the first wake-up after the ticket was taken, or until
    /// `timeout` has passed. They may also return earlier without a reason.
    void sleep_as_caller(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(caller_.rings, ticket, timeout);
    }
    void sleep_as_background(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(background_.rings, ticket, timeout);
    }

    /// For a caller that drives progress. The function writes to `state` that the caller is blocked, calls
    /// `nothing_new()`, and sleeps if `nothing_new()` returns true. The sleep ends after a wake-up, after `timeout`, or
    /// without a reason. No publication is lost: `nothing_new()` sees what was published before the write to `state`,
    /// and threads that publish later wake the caller.
    template <class NothingNew>
    void sleep_as_caller_while(NothingNew&& nothing_new, std::chrono::nanoseconds timeout) {
        const std::uint32_t ticket = caller_ticket();
        set(AttentionState::blocked);
        if (nothing_new()) {
            Atomics::futex_wait(caller_.rings, ticket, timeout);
        }
        set(AttentionState::awake);
    }

    /// Wakes a thread. `state` is the value that the caller has just read; it says which of the two threads must be
    /// woken. This is a system call, unless the thread was already woken since it last prepared to sleep (took a
    /// ticket).
    void ring(AttentionState state) { (state == AttentionState::blocked ? caller_ : background_).ring_once(); }
    /// Wakes both threads, even if their flags `rung` are set. Use this function when the job ends: a thread may have
    /// been killed after it set `rung`, but before its system call woke the sleeping thread. All other threads then
    /// find `rung` set, so ring() would wake nobody.
    void ring_all() {
        caller_.ring();
        background_.ring();
    }
    /// Whether the background thread was woken since it last prepared to sleep (took a ticket). If so, this thread will
    /// check its condition.
    [[nodiscard]] bool background_is_rung() const { return background_.rung.load(std::memory_order_seq_cst) != 0; }
    /// How often the background thread was woken, modulo 2^32.
    [[nodiscard]] std::uint32_t background_rings() const { return background_.rings.load(std::memory_order_seq_cst); }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;

    struct Bell {
        /// Returns a ticket (the value of `rings`). The function reads `rings` before it clears `rung`, so that a
        /// wake-up between the two accesses ends the sleep. Both accesses are seq_cst, like those of ring_once().
        std::uint32_t ticket() {
            const std::uint32_t seen = rings.load(std::memory_order_seq_cst);
            rung.store(0, std::memory_order_seq_cst);
            return seen;
        }
        void ring_once() {
            if (rung.exchange(1, std::memory_order_seq_cst) == 0) {
                ring();
            }
        }
        void ring() {
            rings.fetch_add(1, std::memory_order_seq_cst);
            Atomics::futex_wake_all(rings);
        }

        Word rings{0};  ///< the futex; each wake-up increments it
        Word rung{0};   ///< 1 if the thread was woken since it took its last ticket
    };

    Word state_{0};
    Bell caller_;
    Bell background_;
};

}  // namespace rueda::base
