// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"

namespace rueda::base {

/// The events for which a rank must be woken.
enum class AttentionState : std::uint32_t {
    awake = 0,         ///< a thread of the rank looks by itself, or nothing of the rank is pending
    asleep = 1,        ///< operations are pending, and no caller blocks on one
    blocked = 2,       ///< a caller blocks, or a task is under way: wake it at once
    holding_back = 3,  ///< the background thread lets a batch grow for a short time
};

/// One rank's line in the arena: whether the rank sleeps, and the futexes on which its threads sleep. There are two,
/// because two threads may sleep at the same time: a caller that drives progress, and the background thread. The state
/// says which of them a ring is for.
///
/// Going to sleep is Dekker's problem. The thread that goes to sleep writes `state` and then looks at what it waits
/// for. The publishing thread publishes and then looks at `state`. All four accesses are seq_cst, including the
/// publication. If the publishing thread still reads an older state, nothing is lost: the thread that wrote the newer
/// state looks after writing it.
///
/// A ring is a system call, so a bell is rung once per look of its sleeper: a thread that finds the bell rung does not
/// ring again. The sleeper takes its ticket, then clears `rung`, then looks. The ringing thread publishes, then sets
/// `rung`, then rings. If it finds `rung` set, there are two cases. If it came before the sleeper cleared `rung`, the
/// sleeper's next look sees what it has published. Otherwise another thread's ring comes after the ticket, and this
/// ring ends the sleep.
///
/// Threads: only the thread that holds the rank's progress lock writes `state`. Only the thread that then sleeps takes
/// a ticket. Any thread may do the rest.
template <class Atomics>
class alignas(kCacheLine) Attention {
public:
    [[nodiscard]] AttentionState state() const {
        return static_cast<AttentionState>(state_.load(std::memory_order_seq_cst));
    }
    /// Partner: state(), as publishing threads read it.
    void set(AttentionState state) {
        if (this->state() != state) {
            state_.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
        }
    }

    /// The sleeper takes the ticket before set() and before its last look, and passes it to the sleep.
    [[nodiscard]] std::uint32_t caller_ticket() { return caller_.ticket(); }
    [[nodiscard]] std::uint32_t background_ticket() { return background_.ticket(); }
    /// Both functions sleep until the first ring after the ticket was taken, or until `timeout`. They may also wake for
    /// no reason.
    void sleep_as_caller(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(caller_.rings, ticket, timeout);
    }
    void sleep_as_background(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(background_.rings, ticket, timeout);
    }

    /// A caller that drives progress says that it is blocked, looks once more, and sleeps if `nothing_new()`. It
    /// returns after a ring, after `timeout`, or for no reason. A thread that publishes after the state was
    /// written rings; what was published before is seen by the look.
    template <class NothingNew>
    void sleep_as_caller_while(NothingNew&& nothing_new, std::chrono::nanoseconds timeout) {
        const std::uint32_t ticket = caller_ticket();
        set(AttentionState::blocked);
        if (nothing_new()) {
            Atomics::futex_wait(caller_.rings, ticket, timeout);
        }
        set(AttentionState::awake);
    }

    /// Wakes the thread that `state`, as just read, says is asleep. It makes a system call, unless the bell was rung
    /// since that thread last looked.
    void ring(AttentionState state) { (state == AttentionState::blocked ? caller_ : background_).ring_once(); }
    /// Rings in any case. It is for the end of the job, which must not depend on a ringing thread that was killed
    /// before its system call.
    void ring_all() {
        caller_.ring();
        background_.ring();
    }
    /// Whether the background thread has been rung and has not looked since; it will look.
    [[nodiscard]] bool background_is_rung() const { return background_.rung.load(std::memory_order_seq_cst) != 0; }
    /// How often the background thread has been rung, modulo 2^32.
    [[nodiscard]] std::uint32_t background_rings() const { return background_.rings.load(std::memory_order_seq_cst); }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;

    struct Bell {
        /// The order of the two accesses is the protocol: a ring between them ends the sleep. Partner of both:
        /// ring_once().
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
