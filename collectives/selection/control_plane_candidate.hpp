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

/// The requested job, and what is known about this process.
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
    std::string notice;  ///< a line for the log, as a warning; "" if there is nothing to say
    /// by rank: its number among the processes that were launched; −1: it was started in another way
    std::vector<int> launch_ranks;
    int launch_size = 1;  ///< how many were launched
};

/// A way in which the ranks of a job can find each other. The functions depend on their argument alone, except `open`.
struct ControlPlaneCandidate {
    base::ControlPlaneKind kind;  ///< the value of RUEDA_CONTROL_PLANE that asks for this candidate
    bool takes_communicators;     ///< whether a job can consist of the processes of an MPI communicator
    /// Whether settings and facts speak for this candidate, if no setting asks for one.
    bool (*is_indicated)(const StartRequest& request);
    /// Whether the candidate can serve this process; otherwise the failure says why not and what to do.
    Status (*viable)(const StartRequest& request);
    /// Opens the control plane of a viable candidate. Collective among the members of the job.
    Result<SelectedControlPlane> (*open)(const StartRequest& request);
};

/// The ranks of this host find each other by a socket that settings name.
extern const ControlPlaneCandidate kSocketCandidate;
/// The ranks find each other through MPI.
extern const ControlPlaneCandidate kMpiCandidate;
/// This process is the only rank.
extern const ControlPlaneCandidate kSingleCandidate;

/// The members of the job among the `size` processes that were launched, for process `own`.
[[nodiscard]] Result<std::vector<int>> members_of(const Membership& membership, int own, int size);

[[nodiscard]] std::chrono::milliseconds start_timeout(const base::Config& config);

/// Checks that a socket is named, and this process' place among the ranks that meet there.
[[nodiscard]] Status check_socket_settings(const base::Config& config);

}  // namespace rueda::collectives
