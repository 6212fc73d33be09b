// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/doctor/doctor.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

enum class PluginKind { mpi, ucx };

/// Tries to load the plugin `file` in a child process, because loading may hang or crash. `time` is the time limit.
/// Threads: the calling process must have only one thread.
[[nodiscard]] PluginProbe probe_plugin(const std::string& file, std::chrono::milliseconds time,
                                       PluginKind kind = PluginKind::mpi);

/// Returns the folder of the librueda.so that the program `own_path` would use; empty if there is none. Folders in
/// LD_LIBRARY_PATH come first, as in the system's loader.
[[nodiscard]] std::string folder_of_library(const std::string& own_path, const Environment& environment);

/// Tries to load the plugins in the library's folder. If RUEDA_MPI_PLUGIN names a plugin, tries no other
/// MPI plugin. The same holds for RUEDA_UCX_PLUGIN and the UCX plugin.
[[nodiscard]] PluginFacts look_for_plugins(const std::string& own_path, const Environment& environment);

}  // namespace rueda::launcher
