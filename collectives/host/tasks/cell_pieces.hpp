// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/shared_memory/atomics.hpp"

namespace rueda::collectives {

/// Divides a cell (a rank's buffer in shared memory) between `owners` ranks, and returns the number of bytes for each
/// of them. The result is a whole number of cache lines or, below one cache line, a whole number of elements of any
/// type. A cell has space for one element of each member (core/setup/arena_setup.cpp).
[[nodiscard]] inline std::uint64_t bytes_of_cell_piece(std::uint64_t cell_bytes, std::uint32_t owners) {
    constexpr std::uint64_t kLargestElement = 8;
    const std::uint64_t bytes = cell_bytes / owners;
    RUEDA_ASSERT(bytes >= kLargestElement);
    const std::uint64_t unit = bytes < base::kCacheLine ? kLargestElement : base::kCacheLine;
    return bytes / unit * unit;
}

}  // namespace rueda::collectives
