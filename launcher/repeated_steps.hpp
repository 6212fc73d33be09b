// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/shared_memory/step_page.hpp"

namespace rueda::launcher {

/// Counts the training steps that a job completed more than once because it was restarted.
class RepeatedSteps {
public:
    /// Adds the steps of one attempt. Call this for all attempts, in their order. A rank reports a step when it begins
    /// the step. So a failed attempt began its last step, but did not complete it on all ranks. If a later attempt runs
    /// this step again, the step does not count as repeated.
    void add(const base::StepSpan& attempt, bool ended_well) {
        if (!attempt.is_known()) {
            return;
        }
        const std::int64_t completed = ended_well ? attempt.last : attempt.last - 1;
        // The numbers come from the program and may be arbitrary. Therefore the count stops at the maximum of its type
        // instead of overflowing.
        const std::int64_t again = std::max<std::int64_t>(-1, std::min(completed, completed_) - attempt.first);
        if (__builtin_add_overflow(repeated_, again, &repeated_) || __builtin_add_overflow(repeated_, 1, &repeated_)) {
            repeated_ = std::numeric_limits<std::int64_t>::max();
        }
        completed_ = std::max(completed_, completed);
        reached_ = std::max(reached_, attempt.last);
        known_ = true;
    }
    /// Whether the program has reported any steps.
    [[nodiscard]] bool are_known() const { return known_; }
    [[nodiscard]] std::int64_t count() const { return repeated_; }
    /// The highest step that any attempt has begun.
    [[nodiscard]] std::int64_t reached() const { return reached_; }

private:
    std::int64_t reached_ = -1;
    std::int64_t completed_ = -1;  ///< the highest step that any attempt has completed
    std::int64_t repeated_ = 0;
    bool known_ = false;
};

/// Combines the steps of two ranks. The result reaches from the smaller first step to the larger last step. (All ranks
/// of a job run the same steps.)
[[nodiscard]] inline base::StepSpan joined(const base::StepSpan& a, const base::StepSpan& b) {
    if (!a.is_known() || !b.is_known()) {
        return a.is_known() ? a : b;
    }
    return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

}  // namespace rueda::launcher
