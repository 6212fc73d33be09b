// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/system/clock.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rueda::base {

/// A time stamp for the fast path. On x86-64 it is the processor's counter, which is the same for all cores and costs
/// a third of clock_gettime(). Elsewhere it is the nanoseconds of CLOCK_MONOTONIC. Never 0 in practice.
[[nodiscard]] inline std::uint64_t ticks_now() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(monotonic_ns());
#endif
}

/// The same moment in both clocks.
struct ClockPair {
    std::uint64_t ticks = 0;
    std::int64_t ns = 0;  ///< CLOCK_MONOTONIC

    /// Reads both clocks. Of a few attempts it takes the one that was interrupted least.
    [[nodiscard]] static ClockPair now() {
        ClockPair best;
        std::uint64_t shortest = ~std::uint64_t{0};
        for (int attempt = 0; attempt < 5; ++attempt) {
            const std::uint64_t before = ticks_now();
            const std::int64_t ns = monotonic_ns();
            const std::uint64_t took = ticks_now() - before;
            if (took < shortest) {
                shortest = took;
                best = {before + took / 2, ns};
            }
        }
        return best;
    }
};

/// Converts ticks to nanoseconds of CLOCK_MONOTONIC. It knows one moment from the beginning of the job and one from
/// now, so it needs no calibration in between, and becomes more exact with time.
class TickClock {
public:
    TickClock(ClockPair begin, ClockPair now)
        : begin_(begin),
          ns_per_tick_(now.ticks > begin.ticks
                           ? static_cast<double>(now.ns - begin.ns) / static_cast<double>(now.ticks - begin.ticks)
                           : 1.0) {}

    [[nodiscard]] std::int64_t ns_of(std::uint64_t ticks) const {
        return begin_.ns + span_ns(static_cast<std::int64_t>(ticks - begin_.ticks));
    }
    /// Converts a duration in ticks to nanoseconds.
    [[nodiscard]] std::int64_t span_ns(std::int64_t ticks) const {
        return static_cast<std::int64_t>(static_cast<double>(ticks) * ns_per_tick_);
    }

private:
    ClockPair begin_;
    double ns_per_tick_;
};

}  // namespace rueda::base
