// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/settings/config.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// What this process can find out about how it was started. An environment variable alone is no proof, because batch
/// scripts and child processes inherit it too.
struct LaunchFacts {
    /// whether an MPI library in this process was initialised; it may be finalised by now
    bool mpi_initialized = false;
    /// the name of the MPI launcher, for example "mpirun (OMPI_COMM_WORLD_SIZE)"; empty if there is none
    std::string launcher;
    std::optional<std::int32_t> job_size;    ///< how many processes the launcher started, as the launcher says
    std::optional<MpiAbi> abi;               ///< the ABI of the MPI that this process or the launcher uses, if known
    std::optional<std::int32_t> job_rank{};  ///< this process's number among the launched processes, as the launcher
                                             ///< says
    std::string rendezvous_secret{};  ///< the secret by which ranks recognise each other over TCP. The secret is not a
                                      ///< setting, because code that prints or compares settings must not show it
};

/// Finds out the facts about the calling process from its environment, its open descriptors, and its loaded libraries.
[[nodiscard]] LaunchFacts read_launch_facts(const base::EnvironmentLookup& environment);

}  // namespace rueda::collectives
