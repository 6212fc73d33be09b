// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

/// Finds and loads the files of plugins.
namespace rueda::collectives {

/// Returns the paths at which the plugin `file` may lie, in the order in which they are tried: in the folder of the
/// library (or program) that contains this code, and in the subfolder "rueda" of this folder.
[[nodiscard]] std::vector<std::string> plugin_places(const char* file);

/// Which other libraries can use the symbols of a plugin and of the libraries that the plugin needs.
enum class PluginScope { own, global };

/// Loads a plugin and returns the address of its function `entry`. The plugin is never unloaded. `kind` names the kind
/// of the plugin in errors, for example "MPI plugin". Threads: any thread may call this function.
[[nodiscard]] Result<void*> open_plugin_file(const std::string& file, const char* entry, PluginScope scope,
                                             const char* kind);

/// The error for a plugin whose interface has another version than `interface_version`.
[[nodiscard]] Status other_plugin_version(const std::string& file, const char* kind, unsigned interface_version);

}  // namespace rueda::collectives
