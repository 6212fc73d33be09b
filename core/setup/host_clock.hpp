// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

/// How this host's CLOCK_MONOTONIC relates to the clock of the job, which begins at 0 in init and runs with the clock
/// of rank 0's host.
struct HostClock {
    std::int64_t offset_ns = 0;          ///< what to add to CLOCK_MONOTONIC of this host
    std::int64_t uncertainty_ns = 0;     ///< the offset was wrong by at most this when it was measured
    std::int64_t began_realtime_ns = 0;  ///< time 0 in CLOCK_REALTIME of rank 0's host
};

/// An interval in which the difference of two clocks must lie. Each message between their hosts narrows it, because no
/// message arrives before it is sent.
class ClockInterval {
public:
    /// This host's clock showed `received_ns` after the other's had shown `sent_ns`.
    void note_received(std::int64_t sent_ns, std::int64_t received_ns) {
        least_ns_ = sent_ns - received_ns > least_ns_ ? sent_ns - received_ns : least_ns_;
    }
    /// The other host's clock showed `received_ns` after this host's had shown `sent_ns`.
    void note_sent(std::int64_t sent_ns, std::int64_t received_ns) {
        most_ns_ = received_ns - sent_ns < most_ns_ ? received_ns - sent_ns : most_ns_;
    }
    /// Returns the offset that must be added to this host's clock to get the other host's clock. Valid after one call
    /// of each function.
    [[nodiscard]] std::int64_t middle_ns() const { return least_ns_ + (most_ns_ - least_ns_) / 2; }
    /// Rounded up. If a clock was set meanwhile, the limits may contradict each other.
    [[nodiscard]] std::int64_t half_width_ns() const {
        const std::int64_t width = most_ns_ - least_ns_;
        return ((width < 0 ? -width : width) + 1) / 2;
    }

private:
    static constexpr std::int64_t kFar = std::int64_t{1} << 61;  // 73 years; differences of these do not overflow
    std::int64_t least_ns_ = -kFar;
    std::int64_t most_ns_ = kFar;
};

/// Measures the offset. Collective, if the job has several hosts.
[[nodiscard]] Result<HostClock> measure_host_clock(collectives::ControlPlane& control_plane,
                                                   const collectives::LocalGroup& group);

}  // namespace rueda::core
