// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/atomics.hpp"
#include "ops/reduce.hpp"

/// Sizes of what the tasks copy at one time, and how. Measured with two ranks on two cores of 2 MiB L2 each.
/// Pure arithmetic on what all members know, so every rank computes the same.
namespace rueda::collectives {

/// Bytes of `longest` that go through a cell of `cell_bytes` at one time. In quarters, the reader's wait for the first
/// one is short, and a flag is not waited for too often; beyond 64 KiB the writer's and the reader's part of the caches
/// hold fewer of the lines that are under way (a broadcast of 1 MiB took 95 µs with chunks of 256 KiB, 72 with 64).
[[nodiscard]] constexpr std::uint64_t chunk_bytes_of(std::uint64_t longest, std::uint64_t smallest,
                                                     std::uint64_t cell_bytes) {
    constexpr std::uint64_t kParts = 4;
    constexpr std::uint64_t kLargest = 64 * 1024;
    const std::uint64_t part = longest / kParts / base::kCacheLine * base::kCacheLine;
    return std::min(std::clamp(part, smallest, kLargest), cell_bytes);
}

/// For an output of so many bytes that was not the input before: whole lines need not be read before they are written,
/// which saves a third of the traffic with memory. In turns with others, as in rueda_bench, where no cache holds the
/// output, an allgather into 8 MiB took 1.40 ms, then 0.99, and into 32 MiB 5.7, then 4.1; on its own, with all in the
/// L3, into 8 MiB 0.80, then 0.87.
[[nodiscard]] constexpr ops::Store store_of_output(std::uint64_t bytes) {
    constexpr std::uint64_t kStreamFrom = 4 * 1024 * 1024;
    return bytes >= kStreamFrom ? ops::Store::streaming : ops::Store::cached;
}
/// For one that was: its lines may be in a cache still. A broadcast of 16 MiB in resident memory took 1.28 ms, then
/// 1.01, in turns with others, and 0.59, then 0.95, on its own; of 64 MiB 5.2, then 3.9, and 4.7, then 3.5.
[[nodiscard]] constexpr ops::Store store_in_place(std::uint64_t bytes) {
    constexpr std::uint64_t kStreamFrom = 32 * 1024 * 1024;
    return bytes >= kStreamFrom ? ops::Store::streaming : ops::Store::cached;
}

}  // namespace rueda::collectives
