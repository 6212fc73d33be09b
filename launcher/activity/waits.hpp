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
    std::vector<base::RecordedOperation> operations;  ///< in the order of their numbers
    std::vector<base::RecordedSet> sets;
};

/// In place of a rank: members of the process set that are not on this host.
inline constexpr std::int32_t kOtherHosts = -2;

/// How long a rank waited for another rank.
struct Wait {
    std::int32_t whom = kOtherHosts;
    std::int64_t ns = 0;
};

struct RankWaits {
    std::int64_t window_ns = 0;  ///< the part of the interval that the recorder still has
    std::vector<Wait> waits;     ///< the longest first; each moment is counted once
    [[nodiscard]] std::int64_t total_ns() const;
    /// The part of the window; 0 if the window is empty.
    [[nodiscard]] double share() const;
    [[nodiscard]] double share_for(std::int32_t whom) const;
};

/// Says for each rank how long it waited for which other rank between two moments of CLOCK_MONOTONIC. A rank waits
/// while an operation that it has announced has not been announced by another member of the process set. If several are
/// missing, it waits for the one that is the last. Pure. Costs n log n for n operations.
[[nodiscard]] std::vector<RankWaits> find_waits(std::span<const RecordedRank> ranks, std::int64_t from_ns,
                                                std::int64_t to_ns);

}  // namespace rueda::launcher
