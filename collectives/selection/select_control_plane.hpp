// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "collectives/selection/control_plane_candidate.hpp"

namespace rueda::collectives {

/// Chooses the control plane for the request. Fails if the settings and facts in the request contradict each other. It
/// communicates with no other process and opens nothing.
[[nodiscard]] Result<const ControlPlaneCandidate*> choose_control_plane(const StartRequest& request);

/// Chooses and opens the control plane for the members of the new job. Collective among the members. It must be called
/// in the thread that called rueda::init, because MPI belongs to that thread. The interruption is called with rank
/// numbers of the launch. This function fills in the rank and the size of `init_rules`.
[[nodiscard]] Result<SelectedControlPlane> select_control_plane(const base::Config& config,
                                                                const base::EnvironmentLookup& environment,
                                                                const Interruption& interruption = {},
                                                                const Membership& membership = {},
                                                                const MpiCallRules& init_rules = {});

}  // namespace rueda::collectives
