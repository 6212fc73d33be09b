// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"
#include "collectives/tcp/leader_transport.hpp"
#include "collectives/transport.hpp"

namespace rueda::core {

/// The result of an attempt to connect the leaders of a job.
struct LeaderConnections {
    std::unique_ptr<collectives::LeaderTransport> transport;  ///< null if the leaders have no connections
    /// If the settings ask for connections and there are none, the reason why. Otherwise "". The text is the same on
    /// all ranks.
    std::string why_not;
};

/// Connects the leaders of a job that are neighbours in the tree of hosts. Collective. Returns nothing if the job has
/// one host or RUEDA_LEADER_SOCKETS is off. `inner` is the transport that carries all other messages. It may be null in
/// a job on one host. A failure ends init.
[[nodiscard]] Result<LeaderConnections> connect_leaders(const base::Config& config,
                                                        collectives::ControlPlane& control_plane,
                                                        const collectives::LocalGroup& group,
                                                        collectives::Transport* inner);

/// Connects the leaders of a process set. `number` identifies the set in messages between hosts. Uses existing
/// connections, and makes the missing ones. If a connection cannot be made, the leaders of this set use the inner
/// transport (the one for all other messages). Collective over the set.
[[nodiscard]] Status connect_leaders_of_set(collectives::LeaderTransport& transport,
                                            collectives::ControlPlane& control_plane,
                                            const collectives::LocalGroup& group, std::uint32_t number);

}  // namespace rueda::core
