// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::bench {

/// Returns this process's memory plus its part of shared memory (PSS in /proc/self/smaps_rollup), or 0 if the system
/// does not report this size.
[[nodiscard]] std::uint64_t proportional_bytes();

/// Returns the CPU time of all threads of this process, in seconds.
[[nodiscard]] double cpu_seconds();

/// Sleeps for the given time. Returns the share of a core, in percent, that this process uses during this time.
[[nodiscard]] double idle_cpu_percent(double seconds);
/// Waits in an operation for which rank 0 is late. Returns the share of a core, in percent, that this process uses
/// during this wait. All ranks must call this function together.
[[nodiscard]] double waiting_cpu_percent(double seconds, int rank);

}  // namespace rueda::bench
