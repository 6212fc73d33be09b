// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "base/system/topology.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/host/tasks/numa_nodes.hpp"
#include "collectives/local_group.hpp"

namespace rueda::core {

struct HostNodes {
    collectives::NumaNodes nodes;
    std::string
        warning;  ///< the setting asks for an order by nodes, and there is none; the same on all ranks of the host
};

/// Which ranks of this host lie on which NUMA node, if RUEDA_NUMA_FIRST asks for it. InvalidArgument where not all
/// ranks have the same RUEDA_TOPOLOGY then. Collective.
[[nodiscard]] Result<HostNodes> nodes_of_host(const base::Config& config, const base::Topology& topology,
                                              collectives::ControlPlane& control_plane,
                                              const collectives::LocalGroup& group);

}  // namespace rueda::core
