// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/recorder/recorder_reader.hpp"

namespace rueda::launcher {

/// The contents of the flight recorder of one rank.
struct RecordedRank {
    std::int32_t rank = -1;
    std::vector<base::RecordedOperation> operations;  ///< ordered by their numbers
    std::vector<base::RecordedSet> sets;
};

/// A value of Wait::whom that is not the number of a rank. It means that the rank waited for members of the process set
/// on other hosts.
inline constexpr std::int32_t kOtherHosts = -2;

/// Another value of Wait::whom. It means that the rank waited in a receive that accepts a message from any rank.
inline constexpr std::int32_t kAnyRank = -1;

/// How long a rank waited for another rank.
struct Wait {
    std::int32_t whom = kOtherHosts;
    std::int64_t ns = 0;
};

struct RankWaits {
    std::int64_t window_ns = 0;  ///< length of the interval, without the beginning if its records were overwritten
    std::vector<Wait> waits;     ///< all waits, the longest first; if waits overlap, the overlapping time counts only
                                 ///< once
    /// The time of `waits`, counted for the ranks that caused the waits. Usually the awaited rank is the cause. But if
    /// it was itself blocked in a send or a receive, the peer of this message caused the wait. If the peer was blocked
    /// too, the cause is the rank at the end of the chain. If the ranks of a chain waited for each other in a circle,
    /// the time is left out.
    std::vector<Wait> causes;
    [[nodiscard]] std::int64_t total_ns() const;
    /// The part of window_ns in which the rank waited, from 0 to 1; 0 if window_ns is 0.
    [[nodiscard]] double share() const;
    [[nodiscard]] double share_for(std::int32_t whom) const;
    /// The part of window_ns in which the rank waited because of the rank `whom`. `whom` may be the waiting rank
    /// itself: it may wait for a rank that is blocked until the waiting rank sends it a message.
    [[nodiscard]] double share_caused_by(std::int32_t whom) const;
};

/// Says for each rank how long it waited for each other rank, between two moments of CLOCK_MONOTONIC. A rank waits if
/// it has announced an operation and another member of the process set has not. If several members have not announced
/// the operation, the time counts as a wait for the last of them. A rank also waits if it is in a blocking send or
/// receive and the peer has not called the matching receive or send. Pure function. The cost is n log n for n
/// operations. RankWaits::causes adds the length of the longest chain of blocked ranks to this cost.
[[nodiscard]] std::vector<RankWaits> find_waits(std::span<const RecordedRank> ranks, std::int64_t from_ns,
                                                std::int64_t to_ns);

}  // namespace rueda::launcher
