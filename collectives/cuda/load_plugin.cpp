// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/load_plugin.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "collectives/plugin_file.hpp"

namespace rueda::collectives {
namespace {

constexpr const char* kCudaPluginFile = "librueda_cuda.so";
constexpr const char* kCudaPluginKind = "CUDA plugin";

Result<const CudaPlugin*> load_cuda_file(const std::string& file) {
    const auto address = open_plugin_file(file, kCudaPluginEntry, PluginScope::own, kCudaPluginKind);
    RUEDA_RETURN_IF_FAILED(address.status());
    const CudaPlugin* const plugin = reinterpret_cast<CudaPluginEntry>(address.value())(kCudaPluginInterface);
    if (plugin == nullptr || plugin->interface_version != kCudaPluginInterface) {
        return other_plugin_version(file, kCudaPluginKind, kCudaPluginInterface);
    }
    return plugin;
}

}  // namespace

Result<const CudaPlugin*> load_cuda_plugin(const std::string& file) {
    if (!file.empty()) {
        return load_cuda_file(file);
    }
    const auto places = plugin_places(kCudaPluginFile);
    for (const std::string& place : places) {
        if (::access(place.c_str(), F_OK) == 0) {
            return load_cuda_file(place);
        }
    }
    return failure(ErrorCode::unsupported,
                   "the CUDA plugin was not found, looked for {}: install Rueda again, because every build has this "
                   "file, or name the file by RUEDA_CUDA_PLUGIN",
                   fmt::join(places, ", "));
}

}  // namespace rueda::collectives
