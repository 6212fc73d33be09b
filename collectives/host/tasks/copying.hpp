// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "ops/reduce.hpp"

/// How many bytes the tasks copy at one time, and with which kind of stores. Unless a comment says otherwise, the
/// values were measured with two ranks on two cores with 2 MiB of L2 cache each. The functions use only values that all
/// members know, so every rank gets the same result.
namespace rueda::collectives {

/// The largest number of bytes of an input that a task copies at one time. Larger chunks do not stay in the caches
/// between writer and reader: a broadcast of 1 MiB took 95 µs with chunks of 256 KiB, and 72 µs with 64 KiB, the size
/// of a cell (a buffer in shared memory) on that processor. Cells of 128 KiB are usual on processors with core
/// complexes (core/setup/arena_setup.cpp).
inline constexpr std::uint64_t kLargestChunk = 128 * 1024;

/// Returns how many bytes of its own part a rank copies before it checks again whether data of another rank has
/// arrived. The number is larger for streaming stores, because a fence follows each copy with such stores.
[[nodiscard]] constexpr std::uint64_t own_bytes_at_once(ops::Store store) {
    return store == ops::Store::streaming ? 32 * 1024 : 4 * 1024;
}

/// Returns the smallest size in bytes of a chunk of an operation in which every rank copies to and from cells (buffers
/// of `cell_bytes` bytes in shared memory).
[[nodiscard]] constexpr std::uint64_t smallest_chunk_of(std::uint64_t cell_bytes) {
    constexpr std::uint64_t kSmallest = 16 * 1024;
    return std::max(kSmallest, cell_bytes / 4);
}

/// Returns how many bytes of the longest input go through a cell (a buffer of `cell_bytes` bytes in shared memory) at
/// one time. A quarter of the data is a good size: readers wait only briefly for the first chunk, and must check only a
/// few counters. Where every rank reads and writes, `parts` is ArenaPlan::parts.
[[nodiscard]] constexpr std::uint64_t chunk_bytes_of(std::uint64_t longest, std::uint64_t smallest,
                                                     std::uint64_t cell_bytes, std::uint32_t parts = 4) {
    const std::uint64_t part = longest / parts / base::kCacheLine * base::kCacheLine;
    return std::min(std::clamp(part, smallest, kLargestChunk), cell_bytes);
}

/// Returns the kind of stores for an output of `bytes` bytes that is not also the input. Streaming stores do not read
/// cache lines before they write them, which saves a third of the memory traffic. But lines that are in a cache then
/// move to the main memory. `stream_from` is ArenaPlan::stream_from. Times without and with streaming stores, measured
/// on an Intel Xeon:
/// - other operations run between two allgathers, so no cache holds the output: 1.40 and 0.99 ms for an output of 8
///   MiB, 5.7 and 4.1 ms for 32 MiB;
/// - only allgathers run, so all data are in the L3 cache: 0.80 and 0.87 ms for 8 MiB.
///
/// Times without and with streaming stores, on two cores of an AMD EPYC (Zen 5) with 32 MiB of L3 cache:
/// - each rank writes 32 MiB of other memory between two operations: 0.35 and 0.57 ms for an allgather with an output
///   of 8 MiB, 0.20 and 0.29 ms for an alltoall with an output of 4 MiB;
/// - only these operations run: 0.25 and 0.49 ms for the allgather, 0.14 and 0.25 ms for the alltoall.
[[nodiscard]] constexpr ops::Store store_of_output(std::uint64_t bytes, std::uint64_t stream_from) {
    return bytes >= stream_from ? ops::Store::streaming : ops::Store::cached;
}
/// Returns the kind of stores for an output that is also the input. The cache lines of such an output may still be in a
/// cache. Measured times of a broadcast in shared memory, without and with streaming stores:
/// - other operations run between two broadcasts: 1.28 and 1.01 ms for 16 MiB, 5.2 and 3.9 ms for 64 MiB;
/// - only broadcasts run: 0.59 and 0.95 ms for 16 MiB, 4.7 and 3.5 ms for 64 MiB.
[[nodiscard]] constexpr ops::Store store_in_place(std::uint64_t bytes) {
    constexpr std::uint64_t kStreamFrom = 32 * 1024 * 1024;
    return bytes >= kStreamFrom ? ops::Store::streaming : ops::Store::cached;
}

}  // namespace rueda::collectives
