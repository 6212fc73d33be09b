// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

/// Cores that the ranks of this host have together: those in anybody's affinity mask, but no more than the tightest CPU
/// quota of their control groups allows. A rank that mpirun bound to one core must not take itself for one of many on
/// it. Collective.
[[nodiscard]] Result<double> cores_of_host(collectives::ControlPlane& control_plane,
                                           const collectives::LocalGroup& group);

}  // namespace rueda::core
