// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "gpu.hpp"

namespace rueda::bench {

struct KernelOptions {
    /// The size of a tensor. It should be larger than the L2 cache (an H200 has 50 MB).
    std::uint64_t tensor_bytes = std::uint64_t{64} << 20;
    int samples = 21;
};

/// Measures the kernels of ops/cuda, and prints a table. The launches of each kernel alternate with copies of the same
/// number of bytes within the device's memory. Returns the number of wrong elements.
[[nodiscard]] std::uint64_t measure_kernels(Gpu& gpu, const KernelOptions& options);

}  // namespace rueda::bench
