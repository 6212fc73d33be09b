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

/// The version of the interface between librueda.so and its MPI plugins. Increase it when you change something that
/// both sides share: a part of the plugins that librueda.so uses, or a part of librueda.so that the plugins use (for
/// example the class ControlPlane).
inline constexpr std::uint32_t kMpiPluginInterface = 11;
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

/// Says at what time Rueda finalises MPI. If the program initialised MPI, the program itself finalises it.
enum class MpiFinalize {
    at_close,  ///< MPI is finalised when the control plane is closed. This process cannot initialise MPI again
               ///< afterwards.
    at_exit,   ///< MPI is finalised when the process exits. Rueda can therefore be initialised again after a shutdown.
};

/// Rules for an MPI call that waits for other processes and cannot be interrupted. If the start cannot succeed any
/// more, only the end of the process can end such a call.
struct MpiCallRules {
    /// A separate thread calls this function every kInterruptionInterval, with `rank` and `size`. A failure means that
    /// the MPI call waits for a process that will never come. If the function is empty, only the time limit is checked.
    Interruption interruption{};
    /// The thread that calls `interruption` calls this function with the name of the MPI call, `rank`, and the reason.
    /// The function must end the process. If it is empty, the MPI call is not watched.
    std::function<void(const char* call, int rank, const Status& reason)> end_process{};
    /// This process's number among the launched processes, as the launcher gave it; -1 if unknown.
    int rank = -1;
    int size = 0;  ///< the number of launched processes, as the launcher gave it; 0 if unknown
};

struct MpiControlPlaneOptions {
    /// How long an operation waits for all ranks to call it. This limit also applies to MPI_Init.
    std::chrono::milliseconds operation_timeout = std::chrono::seconds(60);
    MpiFinalize finalize = MpiFinalize::at_close;
    /// A function that can end a wait. It is called with this rank's number in MPI_COMM_WORLD and the size of
    /// MPI_COMM_WORLD. It is not used during MPI_Init, which has `init_rules`.
    Interruption interruption{};
    Membership membership{};
    /// The rules for MPI_Init. The call that creates the communicator has the same rules, but no interruption.
    MpiCallRules init_rules{};
    /// A function that is called with a text for the user if something takes long. If the function is empty, the text
    /// is dropped.
    std::function<void(const std::string& text)> warn{};
};

struct OpenedMpi {
    std::unique_ptr<ControlPlane> control_plane;
    std::string notice;               ///< a warning for the log; empty if there is nothing to report
    std::string note{};               ///< a line for the log; empty if there is nothing to report
    std::vector<int> launch_ranks{};  ///< indexed by rank: the rank in MPI_COMM_WORLD, or −1 if it has none
    int launch_size = 1;              ///< the size of MPI_COMM_WORLD
};

/// The functions of a plugin. The object lies in the plugin's library, which is never unloaded.
struct MpiPlugin {
    std::uint32_t interface_version;
    const char* rueda_version;
    MpiAbi abi;
    /// Initialises MPI in the calling thread, unless MPI is initialised already, and opens a control plane. All ranks
    /// must call it.
    Result<OpenedMpi> (*open)(const MpiControlPlaneOptions& options);
};

}  // namespace rueda::collectives
