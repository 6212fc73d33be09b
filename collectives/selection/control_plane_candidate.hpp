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
    /// by rank: its number among the launched processes, or −1 if it was started in another way
    std::vector<int> launch_ranks;
    int launch_size = 1;  ///< how many were launched
};

/// A way in which the ranks of a job can find each other. All functions except `open` depend only on their argument.
struct ControlPlaneCandidate {
    base::ControlPlaneKind kind;  ///< the value of RUEDA_CONTROL_PLANE that selects this candidate
    bool takes_communicators;     ///< whether a job can consist of the processes of an MPI communicator
    /// Whether the settings and facts indicate this candidate. It is called if no setting asks for a specific
    /// candidate.
    bool (*is_indicated)(const StartRequest& request);
    /// Returns success if the candidate can serve this process. Otherwise the failure says why not and what to do.
    Status (*viable)(const StartRequest& request);
    /// Opens the control plane of a viable candidate. Collective among the members of the job.
    Result<SelectedControlPlane> (*open)(const StartRequest& request);
};

/// The ranks of this host find each other through a socket that the settings name.
extern const ControlPlaneCandidate kSocketCandidate;
/// The ranks find each other through MPI.
extern const ControlPlaneCandidate kMpiCandidate;
/// This process is the only rank.
extern const ControlPlaneCandidate kSingleCandidate;

/// Returns the members of the job, which are some or all of the `size` launched processes. It is called in process
/// `own`.
[[nodiscard]] Result<std::vector<int>> members_of(const Membership& membership, int own, int size);

[[nodiscard]] std::chrono::milliseconds start_timeout(const base::Config& config);

/// Checks that the settings name a socket, and that they say correctly which rank this process is.
[[nodiscard]] Status check_socket_settings(const base::Config& config);

}  // namespace rueda::collectives
