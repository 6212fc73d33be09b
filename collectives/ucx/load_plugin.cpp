// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/ucx/load_plugin.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "collectives/plugin_file.hpp"

namespace rueda::collectives {
namespace {

constexpr const char* kUcxPluginFile = "librueda_ucx.so";
constexpr const char* kUcxPluginKind = "UCX plugin";

Result<const UcxPlugin*> load_ucx_file(const std::string& file) {
    const auto address = open_plugin_file(file, kUcxPluginEntry, PluginScope::own, kUcxPluginKind);
    if (!address.is_ok()) {
        return failure(address.status().code(), "{}: the plugin needs UCX (Debian: libucx0)",
                       address.status().message());
    }
    const UcxPlugin* const plugin = reinterpret_cast<UcxPluginEntry>(address.value())(kUcxPluginInterface);
    if (plugin == nullptr || plugin->interface_version != kUcxPluginInterface) {
        return other_plugin_version(file, kUcxPluginKind, kUcxPluginInterface);
    }
    return plugin;
}

}  // namespace

Result<const UcxPlugin*> load_ucx_plugin(const std::string& file) {
    if (!file.empty()) {
        return load_ucx_file(file);
    }
    const auto places = plugin_places(kUcxPluginFile);
    for (const std::string& place : places) {
        if (::access(place.c_str(), F_OK) == 0) {
            return load_ucx_file(place);
        }
    }
    return failure(ErrorCode::unsupported,
                   "the UCX plugin was not found, looked for {}: build Rueda where UCX is installed (Debian: "
                   "libucx-dev), or name the file by RUEDA_UCX_PLUGIN",
                   fmt::join(places, ", "));
}

}  // namespace rueda::collectives
