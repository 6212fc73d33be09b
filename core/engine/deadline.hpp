// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace rueda::core {

/// The time at which a wait ends, even if its condition is not met. If it is empty, the wait has no limit.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/// Returns the deadline that is `seconds` from now. A negative number means no limit.
[[nodiscard]] inline Deadline deadline_in(double seconds) {
    // a wait is limited to 31 years, because a time_point cannot represent more than 292 years
    constexpr double kLongest = 1e9;
    if (seconds < 0) {
        return std::nullopt;
    }
    return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                  std::chrono::duration<double>(std::min(seconds, kLongest)));
}

/// Returns the seconds from now to the deadline, or 0 if the deadline has passed. Returns -1 if there is no deadline.
[[nodiscard]] inline double seconds_left(Deadline deadline) {
    return deadline ? std::max(std::chrono::duration<double>(*deadline - std::chrono::steady_clock::now()).count(), 0.0)
                    : -1;
}

}  // namespace rueda::core
