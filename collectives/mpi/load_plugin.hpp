// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// An MPI that lies in this process, whoever has loaded it.
struct LoadedMpi {
    bool is_initialized = false;  ///< and perhaps finalised since
    std::optional<MpiAbi> abi;    ///< empty: there is none
};
[[nodiscard]] LoadedMpi find_loaded_mpi();

/// Loads an MPI plugin once per process and keeps it for good: MPI libraries cannot be unloaded. Open MPI's own
/// plugins look for its symbols in the global scope, so that is where plugin and MPI go. `file` is the setting
/// RUEDA_MPI_PLUGIN; where it is empty, mpi_plugin_candidates() are tried. Threads: any.
[[nodiscard]] Result<const MpiPlugin*> load_mpi_plugin(const std::string& file, std::optional<MpiAbi> abi);

/// The first of these files that is there, can be loaded and is for `abi`, where that is known. A node may have the
/// plugins of two MPIs and only one of the MPIs: a plugin whose MPI is missing cannot be loaded, and the next is tried.
/// Where none will do, the error says of each what is wrong.
[[nodiscard]] Result<const MpiPlugin*> load_first_mpi_plugin(const std::vector<std::string>& candidates,
                                                             std::optional<MpiAbi> abi);

/// Where a plugin may lie, in this order: beside the library (or program) that contains this code, and in the folder
/// "rueda" there. librueda_mpi.so is for the MPI that was found when Rueda was built, librueda_mpich.so for MPICH where
/// the first is Open MPI.
[[nodiscard]] std::vector<std::string> mpi_plugin_candidates(std::optional<MpiAbi> abi);

}  // namespace rueda::collectives
