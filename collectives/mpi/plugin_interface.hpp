// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/control_plane.hpp"
#include "collectives/interruption.hpp"
#include "collectives/membership.hpp"

namespace rueda::collectives {

/// Grows with every change of anything that crosses between librueda and a plugin, ControlPlane included.
inline constexpr std::uint32_t kMpiPluginInterface = 7;
inline constexpr const char* kMpiPluginEntry = "rueda_mpi_plugin_open";

/// MPIs whose libraries can stand for each other at run time: a plugin is built for one of these. MPICH's is also that
/// of Intel MPI and MVAPICH.
enum class MpiAbi : std::uint8_t { open_mpi, mpich };

[[nodiscard]] constexpr const char* name_of(MpiAbi abi) {
    switch (abi) {
        case MpiAbi::open_mpi:
            return "Open MPI";
        case MpiAbi::mpich:
            return "MPICH";
    }
    return "an unknown MPI";
}

/// When MPI is finalised, where Rueda was who initialised it.
enum class MpiFinalize {
    at_close,  ///< by close(false); MPI cannot be initialised again in this process
    at_exit,   ///< when the process exits, so that Rueda can be initialised again after a shutdown
};

/// What happens while MPI_Init waits for other processes. MPI_Init is one call, and nothing can make it return: a start
/// that cannot succeed any more ends with the process.
struct MpiInitRules {
    /// Asked every kInterruptionInterval with `rank` and `size`, by a thread that exists for that. A failure means that
    /// MPI_Init waits for a process that will not come. Empty: only the time is watched.
    Interruption interruption{};
    /// Called by the same thread with `rank` and the reason. It has to end the process. Empty: MPI_Init is not watched.
    std::function<void(int rank, const Status& reason)> end_process{};
    /// This process' number among those that were launched, as the launcher tells it. -1: it does not.
    int rank = -1;
    int size = 0;  ///< how many were launched; 0: the launcher does not tell
};

struct MpiControlPlaneOptions {
    /// For all ranks to come to one operation. MPI_Init is one as well.
    std::chrono::milliseconds operation_timeout = std::chrono::seconds(60);
    MpiFinalize finalize = MpiFinalize::at_close;
    /// Not during MPI_Init, for which `init_rules` are. Asked with the numbers of the launch, MPI_COMM_WORLD's.
    Interruption interruption{};
    Membership membership{};
    MpiInitRules init_rules{};
    /// A line for the user about something that goes on. Empty: nobody wants it.
    std::function<void(const std::string& text)> warn{};
};

/// An open plane, and one line for the log where something should be known about it ("" if not).
struct OpenedMpi {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;
    std::vector<int> launch_ranks{};  ///< by rank: its rank in MPI_COMM_WORLD; −1: it is not in that
    int launch_size = 1;              ///< of MPI_COMM_WORLD
};

/// What a plugin offers. It lives in the plugin, which is never unloaded.
struct MpiPlugin {
    std::uint32_t interface_version;
    const char* rueda_version;
    MpiAbi abi;
    /// Initialises MPI in the calling thread if nobody has. Collective.
    Result<OpenedMpi> (*open)(const MpiControlPlaneOptions& options);
};

/// The entry, extern "C": null where the plugin does not have this interface.
using MpiPluginEntry = const MpiPlugin* (*)(std::uint32_t interface_version);

}  // namespace rueda::collectives
