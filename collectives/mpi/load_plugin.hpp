// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// Loads the MPI plugin once per process and keeps it for good: MPI libraries cannot be unloaded. Open MPI's own
/// plugins look for its symbols in the global scope, so that is where plugin and MPI go. `file` is the setting
/// RUEDA_MPI_LIBRARY; where it is empty, mpi_plugin_candidates() are tried. Threads: any.
[[nodiscard]] Result<const MpiPlugin*> load_mpi_plugin(const std::string& file);

/// Where a plugin may lie, in this order: beside the library (or program) that contains this code, and in the folder
/// "rueda" there.
[[nodiscard]] std::vector<std::string> mpi_plugin_candidates();

}  // namespace rueda::collectives
