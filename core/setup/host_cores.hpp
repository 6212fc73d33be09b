// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

/// The number of cores that the ranks of this host have together. A core counts if it is in the affinity mask of at
/// least one rank, because mpirun may bind each rank to a core of its own. The result is at most the smallest CPU quota
/// of the ranks' control groups. Collective.
[[nodiscard]] Result<double> cores_of_host(collectives::ControlPlane& control_plane,
                                           const collectives::LocalGroup& group);

/// Returns the number of threads with which a rank should compute: its share of `cores_of_host`, but not more than
/// `own_cores`, the cores in its affinity mask. At least 1. The ranks of a host then together have no more threads than
/// cores.
[[nodiscard]] int threads_of_rank(double cores_of_host, std::uint32_t own_cores, int local_size);

}  // namespace rueda::core
