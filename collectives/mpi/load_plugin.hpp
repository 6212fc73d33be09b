// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// An MPI library that is loaded in this process.
struct LoadedMpi {
    bool is_initialized = false;  ///< whether MPI was initialised; stays true after MPI was finalised
    std::optional<MpiAbi> abi;    ///< empty: no MPI is loaded
};
[[nodiscard]] LoadedMpi find_loaded_mpi();

/// Loads an MPI plugin once per process and never unloads it, because MPI libraries cannot be unloaded. Plugin and MPI
/// are loaded into the global scope, where Open MPI's own plugins look for MPI's symbols. `file` is the setting
/// RUEDA_MPI_PLUGIN. If it is empty, the files of mpi_plugin_candidates() are tried. Threads: any thread may call this
/// function.
[[nodiscard]] Result<const MpiPlugin*> load_mpi_plugin(const std::string& file, std::optional<MpiAbi> abi);

/// Loads the first file of `candidates` that exists and can be loaded. If `abi` is given, the plugin must have this
/// ABI. A machine may have plugins for two MPIs but only one of the MPIs. The plugin without its MPI cannot be loaded,
/// so the next file is tried. If no file can be used, the error says for each file why.
[[nodiscard]] Result<const MpiPlugin*> load_first_mpi_plugin(const std::vector<std::string>& candidates,
                                                             std::optional<MpiAbi> abi);

/// Returns the paths of plugins, in the order in which they are tried. The plugins lie in the folder of the library (or
/// program) that contains this code, or in its subfolder "rueda". librueda_mpi.so is for the MPI that was found when
/// Rueda was built. If this MPI was Open MPI, there is also librueda_mpich.so, for MPICH.
[[nodiscard]] std::vector<std::string> mpi_plugin_candidates(std::optional<MpiAbi> abi);

}  // namespace rueda::collectives
