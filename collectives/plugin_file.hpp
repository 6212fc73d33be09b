// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

/// Finds and loads the files of plugins.
namespace rueda::collectives {

/// Returns the paths at which the plugin `file` may be, in the order in which they are tried. The first is in the
/// folder of the library (or program) that contains this code, the second in the subfolder "rueda" of this folder.
[[nodiscard]] std::vector<std::string> plugin_places(const char* file);

/// Says who can use the symbols of a plugin and of the libraries that the plugin needs. With `own`, only this plugin
/// and these libraries can use them. With `global`, libraries that are loaded later can use them, too.
enum class PluginScope { own, global };

/// A kind of plugin. Every plugin exports one function, which returns the table of the plugin's functions, or null if
/// the plugin has another interface.
struct PluginKind {
    const char* name;   ///< the name in errors, for example "MPI plugin"
    const char* entry;  ///< the name of the exported function
    std::uint32_t interface_version;
    const char* needs = "";  ///< What the plugin needs. If the file cannot be loaded, the error message ends with this
                             ///< text.
    PluginScope scope = PluginScope::own;
};

/// Returns the first path in plugin_places(file) at which a file exists. Returns an empty text if there is none.
[[nodiscard]] std::string find_plugin_file(const char* file);

/// Loads a plugin and returns the address of its function. The plugin is never unloaded. Threads: any thread may call
/// this function.
[[nodiscard]] Result<void*> open_plugin_file(const std::string& file, const PluginKind& kind);

/// Returns the error for a plugin whose interface version differs from `kind.interface_version`.
[[nodiscard]] Status other_plugin_version(const std::string& file, const PluginKind& kind);

/// Loads a plugin and returns the table of its functions. Threads: any thread may call this function.
template <class Plugin>
[[nodiscard]] Result<const Plugin*> load_plugin_file(const std::string& file, const PluginKind& kind) {
    using Entry = const Plugin* (*)(std::uint32_t interface_version);
    const auto address = open_plugin_file(file, kind);
    RUEDA_RETURN_IF_FAILED(address.status());
    const Plugin* const plugin = reinterpret_cast<Entry>(address.value())(kind.interface_version);
    if (plugin == nullptr || plugin->interface_version != kind.interface_version) {
        return other_plugin_version(file, kind);
    }
    return plugin;
}

}  // namespace rueda::collectives
