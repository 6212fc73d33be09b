// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>

#include "core/pending/callback_thread.hpp"
#include "core/pending/completion.hpp"

namespace rueda::core {

/// Decides which thread calls the callback of an operation. A program may register the callback at the same time as the
/// operation ends. If the registration comes first, the completing thread hands the call to the callback thread. If the
/// end comes first, the registering thread makes the call at once.
///
/// Threads: claim() and arm() run in callers' threads. take_at_end() runs once, in the thread that completes the last
/// member.
class CompletionCall : public QueuedCall {
public:
    /// Claims the right to register the callback. Returns false if another thread already has this right.
    [[nodiscard]] bool claim() { return !claimed_.exchange(true, std::memory_order_relaxed); }
    void give_up_claim() { claimed_.store(false, std::memory_order_relaxed); }

    /// Registers the callback. Call this after claim(), when the callback was written. The callback thread must be
    /// running. Returns false if the operation has ended already; then the caller must make the call.
    [[nodiscard]] bool arm(const Completion& completion) {
        // Accesses are seq_cst in both threads. This thread stores `armed` and then reads the count of pending members.
        // The completing thread decrements this count in complete_one(), and then reads the state in take_at_end(). So
        // at least one of the two threads sees what the other thread has stored. If both do, the exchange decides which
        // thread makes the call.
        state_.store(State::armed, std::memory_order_seq_cst);
        return !completion.done() || state_.exchange(State::taken, std::memory_order_acq_rel) != State::armed;
    }
    /// Returns true if the completing thread must hand the call to the callback thread. If no callback is registered,
    /// this function needs only a single load.
    [[nodiscard]] bool take_at_end() {
        return state_.load(std::memory_order_seq_cst) == State::armed &&
               state_.exchange(State::taken, std::memory_order_acq_rel) == State::armed;
    }

private:
    enum class State : std::uint8_t { idle, armed, taken };
    std::atomic<State> state_{State::idle};
    std::atomic<bool> claimed_{false};  // the exchange in claim() may be relaxed, because it only decides which thread
                                        // may write the callback
};

}  // namespace rueda::core
