// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/settings/config.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/membership.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// What this process can see of how it was started. Environment variables alone prove little, because batch scripts and
/// child processes inherit them too.
struct LaunchFacts {
    bool mpi_initialized = false;  ///< an MPI library in this process has been initialised (and perhaps finalised)
    std::string launcher;          ///< for example "mpirun (OMPI_COMM_WORLD_SIZE)"; empty: no MPI launcher
    std::optional<std::int32_t> job_size;    ///< how many processes that launcher says it started
    std::optional<MpiAbi> abi;               ///< the ABI of the MPI in this process or of that launcher, if it is known
    std::optional<std::int32_t> job_rank{};  ///< this process' number among those that the launcher says it started
};

/// The facts about the calling process: its environment, its descriptors, its libraries.
[[nodiscard]] LaunchFacts read_launch_facts(const base::EnvironmentLookup& environment);

enum class ControlPlaneChoice : std::uint8_t { single, socket, mpi };

/// Pure: chooses the control plane that these settings and facts ask for, or says why they contradict each other.
[[nodiscard]] Result<ControlPlaneChoice> choose_control_plane(const base::Config& config, const LaunchFacts& facts);

/// Pure: the notice to log if `single` was chosen; "" if nothing is unusual about that choice.
[[nodiscard]] std::string notice_of_single(const LaunchFacts& facts);

struct SelectedControlPlane {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;  ///< a line for the log, as a warning; "" if there is nothing to say
    /// by rank: its number among the processes that were launched; −1: it was started in another way
    std::vector<int> launch_ranks;
    int launch_size = 1;  ///< how many were launched
};

/// Chooses and opens the control plane for the processes that are to be in the job. Collective among them. It must be
/// called in the thread that called rueda::init, because MPI belongs to that thread. The interruption is called with
/// rank numbers of the launch. This function fills in the rank and the size of `init_rules`.
[[nodiscard]] Result<SelectedControlPlane> select_control_plane(const base::Config& config,
                                                                const base::EnvironmentLookup& environment,
                                                                const Interruption& interruption = {},
                                                                const Membership& membership = {},
                                                                const MpiCallRules& init_rules = {});

}  // namespace rueda::collectives
