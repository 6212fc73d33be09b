// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"

namespace rueda::base {

/// Which events must wake a rank.
enum class AttentionState : std::uint32_t {
    awake = 0,         ///< none: a thread of the rank checks for events itself, or the rank has no pending operation
    asleep = 1,        ///< operations are pending, but no caller is blocked by them
    blocked = 2,       ///< a caller is blocked, or a task is in progress: every event must wake the rank at once
    holding_back = 3,  ///< the background thread waits a short time so that a batch can grow
};

/// One rank's cache line in the arena. It shows whether the rank sleeps, and holds the two futexes on which its threads
/// sleep. There are two because two threads may sleep at the same time: a caller that drives progress, and the
/// background thread. `state` says which of them is to be woken.
///
/// Going to sleep uses Dekker's pattern. The thread that goes to sleep writes `state`, and then checks what it waits
/// for. The publishing thread publishes, and then reads `state`. All four accesses are seq_cst, including the
/// publication. If the publishing thread still reads an older state, nothing is lost: the thread that wrote the newer
/// state checks after writing, and so sees the publication.
///
/// A ring is a system call. To save calls, each bell has a flag `rung`: a thread that finds it set does not ring again.
/// The sleeper takes its ticket, then clears `rung`, then checks what it waits for. The ringing thread publishes, then
/// sets `rung`, then rings. If the ringing thread finds `rung` already set, there are two cases. Either the sleeper has
/// not cleared `rung` yet; then the sleeper's next check sees the publication. Or another thread set `rung` after the
/// sleeper took its ticket; then the ring of that thread ends the sleep.
///
/// Threads: only the thread that holds the rank's progress lock writes `state`. Only the thread that is about to sleep
/// takes a ticket. Any thread may call the other functions.
template <class Atomics>
class alignas(kCacheLine) Attention {
public:
    [[nodiscard]] AttentionState state() const {
        return static_cast<AttentionState>(state_.load(std::memory_order_seq_cst));
    }
    /// Pairs with state() in publishing threads.
    void set(AttentionState state) {
        if (this->state() != state) {
            state_.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
        }
    }

    /// The sleeper takes the ticket before it calls set() and before its last check, and passes the ticket to the sleep
    /// function.
    [[nodiscard]] std::uint32_t caller_ticket() { return caller_.ticket(); }
    [[nodiscard]] std::uint32_t background_ticket() { return background_.ticket(); }
    /// Both functions sleep until the first ring after the ticket was taken, or until `timeout`. They may also return
    /// earlier without a reason.
    void sleep_as_caller(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(caller_.rings, ticket, timeout);
    }
    void sleep_as_background(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(background_.rings, ticket, timeout);
    }

    /// For a caller that drives progress. It announces that it is blocked, checks once more, and sleeps if
    /// `nothing_new()` returns true. It returns after a ring, after `timeout`, or for no reason. A thread that
    /// publishes after the announcement rings; anything published earlier is seen by the check.
    template <class NothingNew>
    void sleep_as_caller_while(NothingNew&& nothing_new, std::chrono::nanoseconds timeout) {
        const std::uint32_t ticket = caller_ticket();
        set(AttentionState::blocked);
        if (nothing_new()) {
            Atomics::futex_wait(caller_.rings, ticket, timeout);
        }
        set(AttentionState::awake);
    }

    /// Wakes the thread that sleeps according to `state`, which the caller has just read. This is a system call, except
    /// if that thread was rung since its last check.
    void ring(AttentionState state) { (state == AttentionState::blocked ? caller_ : background_).ring_once(); }
    /// Rings in any case, even if `rung` is set. It is used when the job ends: a thread that set `rung` may have been
    /// killed before its system call, and the end must not depend on that thread.
    void ring_all() {
        caller_.ring();
        background_.ring();
    }
    /// Whether the background thread was rung and has not checked since. If so, it will check.
    [[nodiscard]] bool background_is_rung() const { return background_.rung.load(std::memory_order_seq_cst) != 0; }
    /// The number of rings of the background thread, modulo 2^32.
    [[nodiscard]] std::uint32_t background_rings() const { return background_.rings.load(std::memory_order_seq_cst); }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;

    struct Bell {
        /// The ticket must be taken before `rung` is cleared: then a ring between the two accesses ends the sleep. Both
        /// pair with ring_once().
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

        Word rings{0};  ///< the futex
        Word rung{0};   ///< 1: rung since the last ticket
    };

    Word state_{0};
    Bell caller_;
    Bell background_;
};

}  // namespace rueda::base
