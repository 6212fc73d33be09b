// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/load_plugin.hpp"

#include <fmt/format.h>

#include "collectives/plugin_file.hpp"

namespace rueda::collectives {
namespace {

constexpr const char* kCudaPluginFile = "librueda_cuda.so";
constexpr PluginKind kCudaPluginKind{"CUDA plugin", kCudaPluginEntry, kCudaPluginInterface};

}  // namespace

Result<const CudaPlugin*> load_cuda_plugin(const std::string& file) {
    const std::string found = file.empty() ? find_plugin_file(kCudaPluginFile) : file;
    if (found.empty()) {
        return failure(
            ErrorCode::unsupported,
            "the CUDA plugin was not found, looked for {}: install Rueda again, because every build has this "
            "file, or name the file by RUEDA_CUDA_PLUGIN",
            fmt::join(plugin_places(kCudaPluginFile), ", "));
    }
    return load_plugin_file<CudaPlugin>(found, kCudaPluginKind);
}

}  // namespace rueda::collectives
