// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/settings/config.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// What this process can find out about how it was started. Environment variables alone prove little, because batch
/// scripts and child processes inherit them too.
struct LaunchFacts {
    bool mpi_initialized = false;  ///< an MPI library in this process has been initialised (and perhaps finalised)
    std::string launcher;          ///< for example "mpirun (OMPI_COMM_WORLD_SIZE)"; empty if there is no MPI launcher
    std::optional<std::int32_t> job_size;    ///< how many processes this launcher started, according to the launcher
    std::optional<MpiAbi> abi;               ///< the ABI of the MPI in this process or of the launcher, if one is known
    std::optional<std::int32_t> job_rank{};  ///< this process' number among these processes, according to the launcher
};

/// The facts about the calling process: its environment, its descriptors, its libraries.
[[nodiscard]] LaunchFacts read_launch_facts(const base::EnvironmentLookup& environment);

}  // namespace rueda::collectives
