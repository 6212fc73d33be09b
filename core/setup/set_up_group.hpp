// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/settings/config.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"
#include "core/setup/arena_setup.hpp"

namespace rueda::core {

/// What a group of ranks needs before its first operation. The group is the ranks of a job or of a process set.
struct RankGroup {
    collectives::LocalGroup group;
    AttachedArena attached;
};

/// Sets up the arena of this host for the ranks of the control plane. `group` must be the group of these ranks.
/// Collective. All ranks get the same result, except for errors that only one rank can see. Arena::map() describes
/// `addresses`.
[[nodiscard]] Result<RankGroup> set_up_group(const base::Config& config, collectives::ControlPlane& control_plane,
                                             collectives::LocalGroup group, ResidentRoom resident,
                                             collectives::AddressReserve* addresses = nullptr);

}  // namespace rueda::core
