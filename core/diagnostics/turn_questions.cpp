// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/turn_questions.hpp"

#include "core/diagnostics/seconds.hpp"

namespace rueda::core {
namespace {

/// If a rank takes no turn for this time although its background thread has asked for one, the rank counts as stuck. A
/// turn takes milliseconds. On a busy machine, a thread that can run gets a core much sooner than after a second.
constexpr std::int64_t kTurnPatienceNs = kSecond;
/// How long to wait until a background thread that responds has passed a question on. It looks for questions every
/// 0.2 s (its liveness interval), so it normally needs less time.
constexpr std::int64_t kPassOnPatienceNs = 3 * kSecond;

/// Whether `counter` has reached the question with this number. The numbers only grow, and start again at 0 after
/// 2^32 - 1. Therefore the sign of their difference shows which number is newer. The acquire load pairs with the
/// release store of the asked rank.
bool has_reached(const std::atomic<std::uint32_t>& counter, std::uint32_t number) {
    return static_cast<std::int32_t>(counter.load(std::memory_order_acquire) - number) >= 0;
}

}  // namespace

bool TurnQuestions::responds(std::uint32_t member, std::int64_t now_ns) const {
    return now_ns - blocks_.of(member).heartbeat_ns.load(std::memory_order_relaxed) <= silence_limit_ns_;
}

TurnQuestions::Answers TurnQuestions::ask(std::uint64_t members, std::int64_t now_ns) {
    Answers answers;
    for (std::uint32_t member = 0; member < asked_.size(); ++member) {
        Question& question = asked_[member];
        const bool is_asked = question.asked_ns != 0;
        if ((members >> member & 1) == 0 || (!is_asked && !responds(member, now_ns))) {
            continue;
        }
        base::TurnBlock& block = blocks_.of(member).turns;
        if (!is_asked) {
            question = {block.asked.fetch_add(1, std::memory_order_acq_rel) + 1, now_ns};
        }
        if (has_reached(block.answered, question.number)) {
            answers.takes_turns[member] = true;
            continue;
        }
        if (question.passed_on_ns == 0 && has_reached(block.passed_on, question.number)) {
            question.passed_on_ns = now_ns;
        }
        if (question.passed_on_ns == 0) {
            const bool may_pass_on = responds(member, now_ns) && now_ns - question.asked_ns < kPassOnPatienceNs;
            answers.are_complete = answers.are_complete && !may_pass_on;
        } else if (now_ns - question.passed_on_ns >= kTurnPatienceNs) {
            answers.takes_turns[member] = false;
        } else {
            answers.are_complete = false;
        }
    }
    return answers;
}

}  // namespace rueda::core
