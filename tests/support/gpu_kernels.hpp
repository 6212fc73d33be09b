// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

/// Rueda's device kernels on the stand-in for NVIDIA's driver (gpu_stand_in). The bodies of the kernels are compiled
/// for the host.
namespace rueda::tests::gpu {

/// Registers all kernels of ops/cuda with the memory that each of them reads and writes, so that the stand-in finds
/// races with them. reset() forgets all kernels, so call this function after it.
void register_kernels();

/// Stands for the text of the kernels, because a build without nvcc and clang has none. The stand-in does not read the
/// text.
inline constexpr std::string_view kKernelImage = "kernels of the stand-in";

}  // namespace rueda::tests::gpu
