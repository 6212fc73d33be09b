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

/// The version of the interface. Increase it with every change of anything that librueda and a plugin use of each
/// other, including ControlPlane.
inline constexpr std::uint32_t kMpiPluginInterface = 8;
inline constexpr const char* kMpiPluginEntry = "rueda_mpi_plugin_open";

/// A plugin is built for one ABI, and works with all MPIs that have this ABI. Intel MPI and MVAPICH have the ABI of
/// MPICH.
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

/// Says when MPI is finalised, if Rueda initialised it.
enum class MpiFinalize {
    at_close,  ///< in close(false); afterwards MPI cannot be initialised again in this process
    at_exit,   ///< when the process exits, so that Rueda can be initialised again after a shutdown
};

/// Rules for a call of MPI that waits for other processes. Such a call cannot be interrupted. So if the start cannot
/// succeed any more, the process must end.
struct MpiCallRules {
    /// Called every kInterruptionInterval with `rank` and `size`, by a thread that exists only for that. If it returns
    /// a failure, the MPI call waits for a process that will not come. If the function is empty, only the time limit is
    /// checked.
    Interruption interruption{};
    /// Called by the same thread with the name of the call, `rank` and the reason. This function must end the process.
    /// If it is empty, the call is not watched.
    std::function<void(const char* call, int rank, const Status& reason)> end_process{};
    /// This process' number among the launched processes, according to the launcher; -1 if the launcher does not tell
    /// it.
    int rank = -1;
    int size = 0;  ///< the number of launched processes; 0 if the launcher does not tell it
};

struct MpiControlPlaneOptions {
    /// The time within which all ranks must call one operation. MPI_Init counts as an operation too.
    std::chrono::milliseconds operation_timeout = std::chrono::seconds(60);
    MpiFinalize finalize = MpiFinalize::at_close;
    /// Called with this rank's number in MPI_COMM_WORLD and the size of MPI_COMM_WORLD. It is not called during
    /// MPI_Init, for which `init_rules` apply.
    Interruption interruption{};
    Membership membership{};
    /// The rules for MPI_Init. They also apply, without the interruption, to the call that creates the communicator.
    MpiCallRules init_rules{};
    /// Called with a line for the user about something that takes long. If the function is empty, the line is dropped.
    std::function<void(const std::string& text)> warn{};
};

struct OpenedMpi {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;               ///< a line for the log; empty if there is nothing to report
    std::vector<int> launch_ranks{};  ///< by rank: its rank in MPI_COMM_WORLD, or −1 if it has none
    int launch_size = 1;              ///< of MPI_COMM_WORLD
};

/// The functions of a plugin. The struct is part of the plugin, which is never unloaded.
struct MpiPlugin {
    std::uint32_t interface_version;
    const char* rueda_version;
    MpiAbi abi;
    /// Initialises MPI in the calling thread unless it is initialised already. Collective.
    Result<OpenedMpi> (*open)(const MpiControlPlaneOptions& options);
};

/// The plugin's entry function, extern "C". Returns null if the plugin does not have this interface.
using MpiPluginEntry = const MpiPlugin* (*)(std::uint32_t interface_version);

}  // namespace rueda::collectives
