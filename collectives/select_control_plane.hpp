// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/membership.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// What can be seen of how this process was started. Variables alone prove little: batch scripts and child processes
/// inherit them too.
struct LaunchFacts {
    bool mpi_initialized = false;            ///< an MPI in this process has been initialised (and perhaps finalised)
    std::string launcher;                    ///< "mpirun (OMPI_COMM_WORLD_SIZE)", …; empty: no MPI launcher
    std::optional<std::int32_t> job_size;    ///< how many processes that launcher says it started
    std::optional<MpiAbi> abi;               ///< of the MPI in this process or of that launcher, where it is known
    std::optional<std::int32_t> job_rank{};  ///< which of its processes that launcher says this is
};

/// Of the calling process: its environment, its descriptors, its libraries.
[[nodiscard]] LaunchFacts read_launch_facts(const base::EnvironmentLookup& environment);

enum class ControlPlaneChoice : std::uint8_t { single, socket, mpi };

/// Pure: which control plane these settings and facts ask for, or why they contradict each other.
[[nodiscard]] Result<ControlPlaneChoice> choose_control_plane(const base::Config& config, const LaunchFacts& facts);

/// Pure: what is said where `single` was chosen; "" where nothing is odd about that.
[[nodiscard]] std::string notice_of_single(const LaunchFacts& facts);

struct SelectedControlPlane {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;             ///< a line for the log, as a warning; "" if there is nothing to say
    std::vector<int> launch_ranks;  ///< by rank: which one of those that were launched; −1: started otherwise
    int launch_size = 1;            ///< how many were launched
};

/// Chooses and opens it for who is to be in the job. Collective among them; call it in the thread that called
/// rueda::init (MPI belongs there). The interruption is asked with the numbers of the launch. Of `init_rules` the rank
/// and the size are filled in here.
[[nodiscard]] Result<SelectedControlPlane> select_control_plane(const base::Config& config,
                                                                const base::EnvironmentLookup& environment,
                                                                const Interruption& interruption = {},
                                                                const Membership& membership = {},
                                                                const MpiInitRules& init_rules = {});

}  // namespace rueda::collectives
