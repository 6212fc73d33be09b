// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// What a rank brings along about process sets when a job begins.
struct FirstSets {
    std::int32_t next_id = 1;             ///< no set of an earlier job of this process has had it, nor a higher one
    std::vector<std::vector<int>> ranks;  ///< of the sets that all ranks make at once, as the caller gave them
};

/// The number of the job's first set: one that no rank has seen in an earlier job, so that numbers which were kept from
/// there are refused instead of taken for other sets. Mismatch, on all ranks, where they want other sets than others,
/// or in another order; the order within a set does not count. Collective.
[[nodiscard]] Result<std::int32_t> agree_on_first_sets(collectives::ControlPlane& control_plane, const FirstSets& mine);

}  // namespace rueda::core
