// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"

namespace rueda::base {

/// For what a rank has to be woken.
enum class AttentionState : std::uint32_t {
    awake = 0,         ///< somebody of the rank looks by himself, or nothing of the rank is pending
    asleep = 1,        ///< operations are pending and nobody is blocked on one
    blocked = 2,       ///< a caller is blocked, or a task is in the middle: wake at once
    holding_back = 3,  ///< the background thread lets a batch grow for a short time
};

/// One rank's line in the arena: whether it sleeps, and the futexes on which it does. Two of them, since two threads
/// may sleep at a time: a caller that drives the engine, and the background thread. The state says whom a ring is for.
///
/// Going to sleep is Dekker's problem: the sleeper writes `state` and then looks at what it waits for; the publisher
/// publishes and then looks at `state`. All four are seq_cst, the publication included. A ringer that still read the
/// state before the last did not miss anything either: whoever wrote the new state looks after it.
///
/// A ring is a system call, so a bell is rung once per look of its sleeper: who finds it rung leaves it at that. The
/// sleeper takes its ticket, then says that the bell is not rung, then looks; a ringer publishes, then says that it is
/// rung, then rings. Who finds it rung has therefore published before the sleeper's next look (he came before the
/// sleeper's word), or somebody else's ring follows the ticket, and the sleep with it ends.
/// Threads: `state` is written by the thread that holds the rank's progress lock only; tickets are taken by the one
/// thread that then sleeps; the rest by anybody.
template <class Atomics>
class alignas(kCacheLine) Attention {
public:
    [[nodiscard]] AttentionState state() const {
        return static_cast<AttentionState>(state_.load(std::memory_order_seq_cst));
    }
    /// Partner: state() of publishers.
    void set(AttentionState state) {
        if (this->state() != state) {
            state_.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
        }
    }

    /// To be taken before set() and the last look; given to the sleep.
    [[nodiscard]] std::uint32_t caller_ticket() { return caller_.ticket(); }
    [[nodiscard]] std::uint32_t background_ticket() { return background_.ticket(); }
    /// Sleep until somebody rang after the ticket was taken, or `timeout`. Wake for no reason at times.
    void sleep_as_caller(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(caller_.rings, ticket, timeout);
    }
    void sleep_as_background(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(background_.rings, ticket, timeout);
    }

    /// A caller that drives progress says that it is blocked, looks once more, and sleeps if `nothing_new()`. It
    /// returns when somebody has rung, after `timeout`, or for no reason. A thread that publishes after the state was
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

    /// Wakes whom `state`, as just read, speaks of: a system call, unless that has been rung for since it last looked.
    void ring(AttentionState state) { (state == AttentionState::blocked ? caller_ : background_).ring_once(); }
    /// Whatever was rung before: for the end, which must not depend on a ringer that was killed before its system call.
    void ring_all() {
        caller_.ring();
        background_.ring();
    }
    /// The background thread has been rung and has not looked since: it will.
    [[nodiscard]] bool background_is_rung() const { return background_.rung.load(std::memory_order_seq_cst) != 0; }
    /// How often it has been rung, modulo 2^32.
    [[nodiscard]] std::uint32_t background_rings() const { return background_.rings.load(std::memory_order_seq_cst); }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;

    struct Bell {
        /// The order of the two is the protocol: a ring between them ends the sleep. Partner of both: ring_once().
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
