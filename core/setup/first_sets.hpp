// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// What a rank knows about process sets at the start of a job.
struct FirstSets {
    std::int32_t next_id = 1;             ///< a number higher than those of all sets in earlier jobs of this process
    std::vector<std::vector<int>> ranks;  ///< the sets that all ranks create at init, as the caller gave them
};

/// Returns the number of the job's first set. No rank has used this number in an earlier job, so a program that uses an
/// old number gets an error, and not another set. Returns Mismatch on all ranks if the ranks want different sets, or
/// the same sets in a different order. The order of the ranks in a set does not matter. Collective.
[[nodiscard]] Result<std::int32_t> agree_on_first_sets(collectives::ControlPlane& control_plane, const FirstSets& mine);

}  // namespace rueda::core
