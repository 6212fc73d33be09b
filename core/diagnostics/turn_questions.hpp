// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/shared_memory/control_block.hpp"

namespace rueda::core {

/// Asks ranks of this host whether they take turns (base::TurnBlock), without blocking. If an operation that is being
/// executed does not end, the rank that holds it up takes no turns: its thread that drives progress is stuck in the
/// middle of a step. A rank that only waits for other ranks still takes turns. A round of questions begins with the
/// first ask(), and ends with end_round().
///
/// Threads: one, the background thread.
class TurnQuestions {
public:
    /// A rank whose heartbeat is older than `silence_limit_ns` is not asked.
    TurnQuestions(const base::HostBlocks& blocks, std::int64_t silence_limit_ns)
        : blocks_(blocks), silence_limit_ns_(silence_limit_ns) {}

    struct Answers {
        /// True if every member that was asked has answered or has had enough time.
        bool are_complete = true;
        /// For each member: whether it takes turns. Empty if this is not known, because the member's background thread
        /// did not pass the question on.
        std::array<std::optional<bool>, base::kMaxLocalRanks> takes_turns = {};
    };
    /// Asks the members in the bit mask `members` that were not yet asked in this round. If the answers are not
    /// complete, call this again later.
    [[nodiscard]] Answers ask(std::uint64_t members, std::int64_t now_ns);
    void end_round() { asked_ = {}; }

private:
    struct Question {
        std::uint32_t number = 0;
        std::int64_t asked_ns = 0;  ///< 0: not asked in this round
        /// when this object first saw that the member's background thread has passed the question on; 0: not yet
        std::int64_t passed_on_ns = 0;
    };
    [[nodiscard]] bool responds(std::uint32_t member, std::int64_t now_ns) const;

    base::HostBlocks blocks_;
    std::int64_t silence_limit_ns_;
    std::array<Question, base::kMaxLocalRanks> asked_;
};

}  // namespace rueda::core
