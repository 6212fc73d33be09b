// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Defines the plugin's entry function, the only symbol that librueda_cuda.so exports.
#include "collectives/cuda/plugin/cuda_runtime.hpp"
#include "rueda/version.h"

namespace {

constexpr rueda::collectives::CudaPlugin kPlugin{rueda::collectives::kCudaPluginInterface, RUEDA_VERSION,
                                                 rueda::collectives::cuda::open_cuda_runtime};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rueda::collectives::CudaPlugin* rueda_cuda_plugin_open(
    std::uint32_t interface_version) {
    return interface_version == rueda::collectives::kCudaPluginInterface ? &kPlugin : nullptr;
}
