// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>

#include "core/pending/callback_thread.hpp"
#include "core/pending/completion.hpp"

namespace rueda::core {

/// Decides which comes first: the end of an operation, or the registration of a callback. Exactly one side makes the
/// call. The thread that completes the operation hands the call over to the callback thread; a thread that registers
/// too late makes the call at once.
///
/// Threads: claim() and arm() by callers' threads; take_at_end(), once, by the thread that completes the last member.
class CompletionCall : public QueuedCall {
public:
    /// Returns false if another thread has claimed it before.
    [[nodiscard]] bool claim() { return !claimed_.exchange(true, std::memory_order_relaxed); }
    void give_up_claim() { claimed_.store(false, std::memory_order_relaxed); }

    /// Comes after a claim, after the callback was written, and with the callback thread running. Returns false if the
    /// operation has ended; then the caller must make the call.
    [[nodiscard]] bool arm(const Completion& completion) {
        // Dekker's scheme: both sides write, then look. Partners: the count in complete_one(), after which
        // take_at_end() runs, and the load there. If both see each other's write, the exchange decides.
        state_.store(State::armed, std::memory_order_seq_cst);
        return !completion.done() || state_.exchange(State::taken, std::memory_order_acq_rel) != State::armed;
    }
    /// Returns true if the completing thread must hand the call over. Without a callback this costs one load.
    [[nodiscard]] bool take_at_end() {
        return state_.load(std::memory_order_seq_cst) == State::armed &&
               state_.exchange(State::taken, std::memory_order_acq_rel) == State::armed;
    }

private:
    enum class State : std::uint8_t { idle, armed, taken };
    std::atomic<State> state_{State::idle};
    std::atomic<bool> claimed_{false};  // relaxed: it only lets one thread win, which may then write
};

}  // namespace rueda::core
