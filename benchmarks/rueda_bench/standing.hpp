// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::bench {

/// Returns the memory of this process plus its part of the memory that it shares with other processes (PSS), from
/// /proc/self/smaps_rollup. Returns 0 if this cannot be read.
[[nodiscard]] std::uint64_t proportional_bytes();

/// Returns the CPU time of all threads of this process so far, in seconds.
[[nodiscard]] double cpu_seconds();

/// Does nothing for the given time, and returns the share of one core, in percent, that this process uses meanwhile.
[[nodiscard]] double idle_cpu_percent(double seconds);
/// Like idle_cpu_percent(), but the process is blocked in an operation for which rank 0 is late. All ranks must call
/// this function.
[[nodiscard]] double waiting_cpu_percent(double seconds, int rank);

}  // namespace rueda::bench
