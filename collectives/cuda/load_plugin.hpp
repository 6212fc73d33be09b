// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives {

/// Loads the plugin librueda_cuda.so and never unloads it, because NVIDIA's driver cannot be unloaded. `file` is the
/// setting RUEDA_CUDA_PLUGIN. If it is empty, the plugin must lie in the folder of the library (or program) that
/// contains this code, or in its subfolder "rueda". Loading the plugin opens none of NVIDIA's libraries. Threads: any
/// thread may call this function.
[[nodiscard]] Result<const CudaPlugin*> load_cuda_plugin(const std::string& file);

}  // namespace rueda::collectives
