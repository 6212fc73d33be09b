// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "gpu.hpp"

namespace rueda::bench {

struct AllreducePlan {
    std::vector<std::uint64_t> sizes;  ///< in bytes
    double seconds = 0.3;              ///< for each size
};

/// Measures averages of a float32 tensor on the GPU over all ranks, and prints a table on rank 0. The candidates take
/// turns: Rueda with calls that wait on the host, Rueda with calls that wait on the stream, and programs that copy the
/// tensor to the host, average it there, and copy it back. Returns the number of wrong elements on all ranks. All ranks
/// must call this function.
[[nodiscard]] std::uint64_t measure_allreduces(Gpu& gpu, const AllreducePlan& plan);

}  // namespace rueda::bench
