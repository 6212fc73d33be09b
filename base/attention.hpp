// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>

#include "base/atomics.hpp"

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
/// Threads: `state` is written by the thread that holds the rank's crank only; the futex words by anybody.
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
    [[nodiscard]] std::uint32_t caller_ticket() const { return caller_rings_.load(std::memory_order_seq_cst); }
    [[nodiscard]] std::uint32_t background_ticket() const { return background_rings_.load(std::memory_order_seq_cst); }
    /// Sleep until somebody rang after the ticket was taken, or `timeout`. Wake for no reason at times.
    void sleep_as_caller(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(caller_rings_, ticket, timeout);
    }
    void sleep_as_background(std::uint32_t ticket, std::chrono::nanoseconds timeout) {
        Atomics::futex_wait(background_rings_, ticket, timeout);
    }

    /// Wakes whom `state`, as just read, speaks of: a system call.
    void ring(AttentionState state) { ring(state == AttentionState::blocked ? caller_rings_ : background_rings_); }
    void ring_all() {
        ring(caller_rings_);
        ring(background_rings_);
    }

private:
    using Word = typename Atomics::template Atomic<std::uint32_t>;
    static void ring(Word& word) {
        word.fetch_add(1, std::memory_order_seq_cst);
        Atomics::futex_wake_all(word);
    }

    Word state_{0};
    Word caller_rings_{0};
    Word background_rings_{0};
};

}  // namespace rueda::base
