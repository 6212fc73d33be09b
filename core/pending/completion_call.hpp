// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>

#include "core/pending/callback_thread.hpp"
#include "core/pending/completion.hpp"

namespace rueda::core {

/// Decides which comes first: the end of an operation, or the registration of a callback. Exactly one side calls the
/// callback. If the registration comes first, the thread that completes the operation hands the call over to the
/// callback thread. If it comes too late, the registering thread makes the call at once.
///
/// Threads: claim() and arm() by callers' threads; take_at_end() by the thread that completes the last member, once.
class CompletionCall : public QueuedCall {
public:
    /// Returns false if another thread has already claimed the call.
    [[nodiscard]] bool claim() { return !claimed_.exchange(true, std::memory_order_relaxed); }
    void give_up_claim() { claimed_.store(false, std::memory_order_relaxed); }

    /// Called after a claim, after the callback was written, and while the callback thread runs. Returns false if the
    /// operation has ended; then the caller must make the call.
    [[nodiscard]] bool arm(const Completion& completion) {
        // Dekker's scheme: both sides write first and then read. Pairs with complete_one(), which writes the count and
        // then runs take_at_end(), and with the load there. If both sides see each other's write, the exchange decides.
        state_.store(State::armed, std::memory_order_seq_cst);
        return !completion.done() || state_.exchange(State::taken, std::memory_order_acq_rel) != State::armed;
    }
    /// Returns true if the completing thread must hand over the call. If there is no callback, this costs only one
    /// load.
    [[nodiscard]] bool take_at_end() {
        return state_.load(std::memory_order_seq_cst) == State::armed &&
               state_.exchange(State::taken, std::memory_order_acq_rel) == State::armed;
    }

private:
    enum class State : std::uint8_t { idle, armed, taken };
    std::atomic<State> state_{State::idle};
    std::atomic<bool> claimed_{false};  // relaxed: it only decides which thread may write
};

}  // namespace rueda::core
