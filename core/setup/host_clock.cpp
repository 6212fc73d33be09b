// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/host_clock.hpp"

#include <cstring>
#include <ctime>
#include <span>
#include <type_traits>

#include "base/system/clock.hpp"

namespace rueda::core {
namespace {

/// Each round narrows the interval in which the difference of two clocks must lie. More rounds than this would not
/// narrow it further. The last round only transfers the time at which rank 0 left the previous round.
constexpr int kRounds = 9;

/// What each rank sends in a round. The first two times are CLOCK_MONOTONIC of the rank's host.
struct Reading {
    std::int64_t entered_ns;   ///< when the rank entered this round
    std::int64_t left_ns;      ///< when the rank left the previous round
    std::int64_t realtime_ns;  ///< the value of CLOCK_REALTIME when the rank entered this round
};
static_assert(std::is_trivially_copyable_v<Reading>);

std::int64_t realtime_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Runs one round and returns what rank 0 sent.
Result<Reading> exchange(collectives::ControlPlane& control_plane, const Reading& mine) {
    Result<std::vector<collectives::Bytes>> all = control_plane.allgather(std::as_bytes(std::span(&mine, 1)));
    RUEDA_RETURN_IF_FAILED(all.status());
    const collectives::Bytes& bytes = all.value().front();
    Reading theirs{};
    if (bytes.size() != sizeof(theirs)) {
        return failure(ErrorCode::internal, "rank 0 announced its clock with {} bytes instead of {}", bytes.size(),
                       sizeof(theirs));
    }
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    // 36 years; the difference of two times below this limit does not overflow
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    if (theirs.entered_ns < 0 || theirs.entered_ns > kMost || theirs.left_ns < 0 || theirs.left_ns > kMost) {
        return failure(ErrorCode::internal,
                       "rank 0 announced the times {} ns and {} ns of its clock, expected 0 to {} ns",
                       theirs.entered_ns, theirs.left_ns, kMost);
    }
    return theirs;
}

}  // namespace

Result<HostClock> measure_host_clock(collectives::ControlPlane& control_plane, const collectives::LocalGroup& group) {
    if (group.host_count == 1) {
        return HostClock{.offset_ns = -base::monotonic_ns(), .uncertainty_ns = 0, .began_realtime_ns = realtime_ns()};
    }
    ClockInterval interval;
    HostClock clock;
    std::int64_t began_ns = 0;
    Reading before{};
    for (int round = 0; round < kRounds; ++round) {
        const Reading mine{.entered_ns = base::monotonic_ns(), .left_ns = before.left_ns, .realtime_ns = realtime_ns()};
        const Result<Reading> theirs = exchange(control_plane, mine);
        const std::int64_t left_ns = base::monotonic_ns();
        RUEDA_RETURN_IF_FAILED(theirs.status());
        interval.note_received(theirs.value().entered_ns, left_ns);
        if (round == 0) {
            began_ns = theirs.value().entered_ns;
            clock.began_realtime_ns = theirs.value().realtime_ns;
        } else {
            interval.note_sent(before.entered_ns, theirs.value().left_ns);
        }
        before = {.entered_ns = mine.entered_ns, .left_ns = left_ns, .realtime_ns = 0};
    }
    const bool is_same_clock = group.host_index == 0;
    clock.offset_ns = (is_same_clock ? 0 : interval.middle_ns()) - began_ns;
    clock.uncertainty_ns = is_same_clock ? 0 : interval.half_width_ns();
    return clock;
}

}  // namespace rueda::core
