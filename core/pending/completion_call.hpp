// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>

#include "core/pending/callback_thread.hpp"
#include "core/pending/completion.hpp"

namespace rueda::core {

/// Which of two comes first: the end of an operation, or the wish to be called then. Exactly one of them makes the
/// call: who completes the operation by handing it over to the thread for callbacks, who asks too late at once.
///
/// Threads: claim() and arm() by callers'; take_at_end() by who completes the last member, once.
class CompletionCall : public QueuedCall {
public:
    /// False: somebody has claimed it before.
    [[nodiscard]] bool claim() { return !claimed_.exchange(true, std::memory_order_relaxed); }
    void give_up_claim() { claimed_.store(false, std::memory_order_relaxed); }

    /// After a claim, and after what will be called was written; the thread is running. False: the operation has ended,
    /// and the call is the caller's to make.
    [[nodiscard]] bool arm(const Completion& completion) {
        // Dekker's: both sides write, then look. Partners: the count in complete_one(), which take_at_end() follows,
        // and the load there. Where both see each other's write, the exchange decides.
        state_.store(State::armed, std::memory_order_seq_cst);
        return !completion.done() || state_.exchange(State::taken, std::memory_order_acq_rel) != State::armed;
    }
    /// True: the call is the completing thread's to hand over. Without a callback it costs a load.
    [[nodiscard]] bool take_at_end() {
        return state_.load(std::memory_order_seq_cst) == State::armed &&
               state_.exchange(State::taken, std::memory_order_acq_rel) == State::armed;
    }

private:
    enum class State : std::uint8_t { idle, armed, taken };
    std::atomic<State> state_{State::idle};
    std::atomic<bool> claimed_{false};  // relaxed: says who may write, to that one only
};

}  // namespace rueda::core
