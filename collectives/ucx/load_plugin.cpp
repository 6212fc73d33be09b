// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/ucx/load_plugin.hpp"

#include <fmt/format.h>

#include "collectives/plugin_file.hpp"

namespace rueda::collectives {
namespace {

constexpr const char* kUcxPluginFile = "librueda_ucx.so";
constexpr PluginKind kUcxPluginKind{"UCX plugin", kUcxPluginEntry, kUcxPluginInterface,
                                    ": the plugin needs UCX (Debian: libucx0)"};

}  // namespace

Result<const UcxPlugin*> load_ucx_plugin(const std::string& file) {
    const std::string found = file.empty() ? find_plugin_file(kUcxPluginFile) : file;
    if (found.empty()) {
        return failure(ErrorCode::unsupported,
                       "the UCX plugin was not found, looked for {}: build Rueda where UCX is installed (Debian: "
                       "libucx-dev), or name the file by RUEDA_UCX_PLUGIN",
                       fmt::join(plugin_places(kUcxPluginFile), ", "));
    }
    return load_plugin_file<UcxPlugin>(found, kUcxPluginKind);
}

}  // namespace rueda::collectives
