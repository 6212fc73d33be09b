// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/settings/config.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/interruption.hpp"
#include "collectives/membership.hpp"
#include "collectives/mpi/plugin_interface.hpp"
#include "collectives/selection/launch_facts.hpp"

namespace rueda::collectives {

/// The requested job, and the facts about this process.
struct StartRequest {
    base::Config config;
    LaunchFacts facts;
    Interruption interruption{};
    Membership membership{};
    MpiCallRules init_rules{};

    [[nodiscard]] bool has_communicator() const { return !membership.communicator.empty(); }
};

struct SelectedControlPlane {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;  ///< a line that is logged as a warning; empty if there is nothing to report
    /// Indexed by rank: the rank's number among the launched processes, or −1 if it was not launched with them.
    std::vector<int> launch_ranks;
    int launch_size = 1;  ///< the number of launched processes
    std::string note{};   ///< a line for the log; empty if there is nothing to report
};

/// A way in which the ranks of a job can find each other. All functions except `open` depend only on their argument.
struct ControlPlaneCandidate {
    base::ControlPlaneKind kind;  ///< the value of RUEDA_CONTROL_PLANE that selects this way
    bool takes_communicators;     ///< whether a job can consist of the processes of an MPI communicator
    /// Whether the settings and the facts suggest this way. Rueda asks this only if no setting selects a way.
    bool (*is_indicated)(const StartRequest& request);
    /// Returns success if this way can work in this process. Otherwise the failure says why not, and what to do.
    Status (*viable)(const StartRequest& request);
    /// Opens the control plane. Call it only after viable() succeeded. All members of the job must call it.
    Result<SelectedControlPlane> (*open)(const StartRequest& request);
};

/// The ranks of this host find each other through a socket that the settings name.
extern const ControlPlaneCandidate kSocketCandidate;
/// The ranks find each other through MPI.
extern const ControlPlaneCandidate kMpiCandidate;
/// This process is the only rank.
extern const ControlPlaneCandidate kSingleCandidate;

/// Returns the members of the job, which are some or all of the `size` launched processes. `own` is the number of the
/// calling process.
[[nodiscard]] Result<std::vector<int>> members_of(const Membership& membership, int own, int size);

[[nodiscard]] std::chrono::milliseconds start_timeout(const base::Config& config);

/// Checks that the settings name a socket, and that they give this process a valid rank.
[[nodiscard]] Status check_socket_settings(const base::Config& config);

}  // namespace rueda::collectives
