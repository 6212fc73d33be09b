// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "launcher/doctor/doctor.hpp"

namespace rueda::launcher {

/// Loads the file in a child process, which may hang or crash for it. Threads: the calling process must have only one.
[[nodiscard]] PluginProbe probe_plugin(const std::string& file, std::chrono::milliseconds time);

/// The folder of the librueda.so that belongs to the program `own_path`; empty where there is none. LD_LIBRARY_PATH
/// comes first, as it does for the system's loader.
[[nodiscard]] std::string folder_of_library(const std::string& own_path,
                                            const std::map<std::string, std::string>& environment);

/// The plugins that lie there, or the one that RUEDA_MPI_PLUGIN names, each tried.
[[nodiscard]] PluginFacts look_for_plugins(const std::string& own_path,
                                           const std::map<std::string, std::string>& environment);

}  // namespace rueda::launcher
