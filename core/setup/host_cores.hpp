// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

/// The number of cores that the ranks of this host have together: the cores that are in any rank's affinity mask, but
/// no more than the smallest CPU quota of their control groups allows. If mpirun binds each rank to a core of its own,
/// a rank must not conclude that all ranks share its core. Collective.
[[nodiscard]] Result<double> cores_of_host(collectives::ControlPlane& control_plane,
                                           const collectives::LocalGroup& group);

}  // namespace rueda::core
