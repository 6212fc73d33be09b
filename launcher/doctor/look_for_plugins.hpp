// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/doctor/doctor.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// Tries to load the file in a child process, because loading may hang or crash. Threads: the calling process must have
/// only one thread.
[[nodiscard]] PluginProbe probe_plugin(const std::string& file, std::chrono::milliseconds time);

/// The folder of the librueda.so that belongs to the program `own_path`; empty if there is none. The folders in
/// LD_LIBRARY_PATH come first, as they do for the system's loader.
[[nodiscard]] std::string folder_of_library(const std::string& own_path, const Environment& environment);

/// Tries the plugins in that folder, or only the plugin that RUEDA_MPI_PLUGIN names.
[[nodiscard]] PluginFacts look_for_plugins(const std::string& own_path, const Environment& environment);

}  // namespace rueda::launcher
