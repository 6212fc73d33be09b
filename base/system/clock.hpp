// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <ctime>

namespace rueda::base {

/// Returns the nanoseconds of CLOCK_MONOTONIC, a clock that is the same for all processes of a machine.
[[nodiscard]] inline std::int64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Like monotonic_ns(), but with the granularity of a kernel tick (1–10 ms). Reading this clock is several times
/// cheaper than monotonic_ns(), so fast paths use it.
[[nodiscard]] inline std::int64_t coarse_monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace rueda::base
