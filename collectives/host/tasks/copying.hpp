// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "ops/reduce.hpp"

/// Says how many bytes the tasks copy at one time, and with which kind of stores. The values were measured with two
/// ranks on two cores with 2 MiB of L2 cache each. This is pure arithmetic on values that all members know, so every
/// rank computes the same result.
namespace rueda::collectives {

/// How many bytes of `longest` go through a cell of `cell_bytes` at one time. With a quarter of the data per chunk, the
/// reader waits only briefly for the first chunk, and the number of flags to wait for stays small. With chunks of more
/// than 64 KiB, fewer of the lines on their way stay in the caches of writer and reader. A broadcast of 1 MiB took 95
/// µs with chunks of 256 KiB, and 72 µs with 64 KiB.
[[nodiscard]] constexpr std::uint64_t chunk_bytes_of(std::uint64_t longest, std::uint64_t smallest,
                                                     std::uint64_t cell_bytes) {
    constexpr std::uint64_t kParts = 4;
    constexpr std::uint64_t kLargest = 64 * 1024;
    const std::uint64_t part = longest / kParts / base::kCacheLine * base::kCacheLine;
    return std::min(std::clamp(part, smallest, kLargest), cell_bytes);
}

/// The kind of stores for an output of this many bytes that is not also the input. Streaming stores do not read whole
/// lines before they write them, which saves a third of the memory traffic. Measured times, first without and then with
/// streaming: if the operation alternates with other operations as in rueda_bench, so that no cache holds the output,
/// an allgather into 8 MiB took 1.40 and 0.99 ms, and into 32 MiB 5.7 and 4.1 ms. If it runs alone, so that all data
/// are in the L3 cache, 8 MiB took 0.80 and 0.87 ms.
[[nodiscard]] constexpr ops::Store store_of_output(std::uint64_t bytes) {
    constexpr std::uint64_t kStreamFrom = 4 * 1024 * 1024;
    return bytes >= kStreamFrom ? ops::Store::streaming : ops::Store::cached;
}
/// The kind of stores for an output that is also the input: its lines may still be in a cache. Measured times, first
/// without and then with streaming: a broadcast of 16 MiB in resident memory took 1.28 and 1.01 ms if it alternates
/// with other operations, and 0.59 and 0.95 ms if it runs alone. With 64 MiB it took 5.2 and 3.9 ms in alternation, and
/// 4.7 and 3.5 ms alone.
[[nodiscard]] constexpr ops::Store store_in_place(std::uint64_t bytes) {
    constexpr std::uint64_t kStreamFrom = 32 * 1024 * 1024;
    return bytes >= kStreamFrom ? ops::Store::streaming : ops::Store::cached;
}

}  // namespace rueda::collectives
