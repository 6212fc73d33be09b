// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

/// Relates this host's CLOCK_MONOTONIC to the clock of the job. The clock of the job is 0 in init, and runs like the
/// clock of rank 0's host.
struct HostClock {
    std::int64_t offset_ns = 0;          ///< the number to add to a time of this host's CLOCK_MONOTONIC, to get a time
                                         ///< of the job's clock
    std::int64_t uncertainty_ns = 0;     ///< the largest possible error of the offset when it was measured
    std::int64_t began_realtime_ns = 0;  ///< the CLOCK_REALTIME of rank 0's host at time 0
};

/// The interval in which the difference of two hosts' clocks must lie. Each message between the hosts narrows the
/// interval, because a message arrives after it was sent.
class ClockInterval {
public:
    /// Call this when a message has come from the other host. The other host's clock showed `sent_ns` when it sent the
    /// message, and this host's clock showed `received_ns` when the message arrived.
    void note_received(std::int64_t sent_ns, std::int64_t received_ns) {
        least_ns_ = sent_ns - received_ns > least_ns_ ? sent_ns - received_ns : least_ns_;
    }
    /// Call this for a message to the other host. This host's clock showed `sent_ns` when it sent the message, and the
    /// other host's clock showed `received_ns` when the message arrived.
    void note_sent(std::int64_t sent_ns, std::int64_t received_ns) {
        most_ns_ = received_ns - sent_ns < most_ns_ ? received_ns - sent_ns : most_ns_;
    }
    /// The best estimate of the other host's clock minus this host's clock. Valid after note_received() and note_sent()
    /// were called.
    [[nodiscard]] std::int64_t middle_ns() const { return least_ns_ + (most_ns_ - least_ns_) / 2; }
    /// The largest error of middle_ns(), rounded up. If somebody has set a clock between two messages, `least_ns_` may
    /// be larger than `most_ns_`.
    [[nodiscard]] std::int64_t half_width_ns() const {
        const std::int64_t width = most_ns_ - least_ns_;
        return ((width < 0 ? -width : width) + 1) / 2;
    }

private:
    // 73 years, in nanoseconds: far more than any difference of clocks. The difference of two such numbers does not
    // overflow.
    static constexpr std::int64_t kFar = std::int64_t{1} << 61;
    std::int64_t least_ns_ = -kFar;
    std::int64_t most_ns_ = kFar;
};

/// Measures the offset. Collective, if the job has several hosts.
[[nodiscard]] Result<HostClock> measure_host_clock(collectives::ControlPlane& control_plane,
                                                   const collectives::LocalGroup& group);

}  // namespace rueda::core
