// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "collectives/selection/control_plane_candidate.hpp"

namespace rueda::collectives {

/// Chooses how the ranks of the requested job find each other. Fails if the settings and facts in the request
/// contradict each other. The function communicates with no other process and opens nothing.
[[nodiscard]] Result<const ControlPlaneCandidate*> choose_control_plane(const StartRequest& request);

/// Chooses and opens the control plane for the members of the new job. All members must call it, in the thread that
/// called rueda::init(), because this thread may have to initialise MPI. The arguments of `interruption` are this
/// process's number and the number of processes, both counted among the launched processes. This function sets the rank
/// and the size in `init_rules`.
[[nodiscard]] Result<SelectedControlPlane> select_control_plane(const base::Config& config,
                                                                const base::EnvironmentLookup& environment,
                                                                const Interruption& interruption = {},
                                                                const Membership& membership = {},
                                                                const MpiCallRules& init_rules = {});

}  // namespace rueda::collectives
