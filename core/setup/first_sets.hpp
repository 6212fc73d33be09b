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
    std::int32_t next_id = 1;             ///< no set of an earlier job of this process had this number or a higher one
    std::vector<std::vector<int>> ranks;  ///< the sets that all ranks create at init, as the caller gave them
};

/// Returns the number of the job's first set. No rank has used this number in an earlier job, so if a program still has
/// a number from an earlier job, it is refused and not taken for another set. Returns Mismatch on all ranks if the
/// ranks want different sets, or the same sets in a different order; the order of the ranks within a set does not
/// matter. Collective.
[[nodiscard]] Result<std::int32_t> agree_on_first_sets(collectives::ControlPlane& control_plane, const FirstSets& mine);

}  // namespace rueda::core
