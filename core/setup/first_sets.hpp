// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// What a rank knows about process sets when a job begins.
struct FirstSets {
    std::int32_t next_id = 1;  ///< neither it nor a higher one was used by a set of an earlier job of this process
    std::vector<std::vector<int>> ranks;  ///< the sets that all ranks make at once, as the caller gave them
};

/// The number of the job's first set: one that no rank has seen in an earlier job. So a number that a program kept from
/// an earlier job is refused, and not taken for another set. Mismatch, on all ranks, if they want different sets, or
/// the same sets in different order; the order within a set does not matter. Collective.
[[nodiscard]] Result<std::int32_t> agree_on_first_sets(collectives::ControlPlane& control_plane, const FirstSets& mine);

}  // namespace rueda::core
