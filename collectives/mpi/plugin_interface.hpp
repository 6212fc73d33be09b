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

/// Raised with every change of anything that crosses between librueda and a plugin, ControlPlane included.
inline constexpr std::uint32_t kMpiPluginInterface = 8;
inline constexpr const char* kMpiPluginEntry = "rueda_mpi_plugin_open";

/// A plugin is built for one ABI, and works with all MPIs that have it. Intel MPI and MVAPICH have MPICH's.
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

/// When MPI is finalised, if Rueda initialised it.
enum class MpiFinalize {
    at_close,  ///< in close(false); MPI cannot be initialised again in this process
    at_exit,   ///< when the process exits, so that Rueda can be initialised again after a shutdown
};

/// What happens while a call of MPI waits for other processes. Nothing can make such a call return, so a start that
/// cannot succeed any more ends with the process.
struct MpiCallRules {
    /// Called every kInterruptionInterval with `rank` and `size`, by a thread that exists only for that. A failure
    /// means that the MPI call waits for a process that will not come. Empty: only the time is watched.
    Interruption interruption{};
    /// Called by the same thread with the name of the call, `rank` and the reason. It has to end the process. Empty:
    /// the call is not watched.
    std::function<void(const char* call, int rank, const Status& reason)> end_process{};
    /// This process' number among those that were launched, as the launcher tells it. -1: it does not.
    int rank = -1;
    int size = 0;  ///< how many were launched; 0: the launcher does not tell
};

struct MpiControlPlaneOptions {
    /// How long all ranks may take to come to one operation. MPI_Init counts as an operation, too.
    std::chrono::milliseconds operation_timeout = std::chrono::seconds(60);
    MpiFinalize finalize = MpiFinalize::at_close;
    /// Called with this rank's number in MPI_COMM_WORLD and the size of MPI_COMM_WORLD. Not called during MPI_Init,
    /// which has `init_rules`.
    Interruption interruption{};
    Membership membership{};
    /// The rules for MPI_Init. They also hold, without the interruption, for the call that creates the communicator.
    MpiCallRules init_rules{};
    /// Receives a line for the user about something that goes on. Empty: the line is dropped.
    std::function<void(const std::string& text)> warn{};
};

struct OpenedMpi {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;               ///< a line for the log; "" if there is nothing to say
    std::vector<int> launch_ranks{};  ///< by rank: its rank in MPI_COMM_WORLD; −1: it is not in that
    int launch_size = 1;              ///< of MPI_COMM_WORLD
};

/// What a plugin offers. It lives in the plugin, which is never unloaded.
struct MpiPlugin {
    std::uint32_t interface_version;
    const char* rueda_version;
    MpiAbi abi;
    /// Initialises MPI in the calling thread unless it is initialised already. Collective.
    Result<OpenedMpi> (*open)(const MpiControlPlaneOptions& options);
};

/// The entry, extern "C". Returns null if the plugin does not have this interface.
using MpiPluginEntry = const MpiPlugin* (*)(std::uint32_t interface_version);

}  // namespace rueda::collectives
