// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::bench {

/// The memory of this process plus its part of what it shares with others (PSS), from /proc/self/smaps_rollup; 0 if it
/// cannot be read.
[[nodiscard]] std::uint64_t proportional_bytes();

/// CPU time of all threads of this process so far, in seconds.
[[nodiscard]] double cpu_seconds();

/// The share of one core, in percent, that this process uses while it does nothing for this long.
[[nodiscard]] double idle_cpu_percent(double seconds);
/// The same while the process is blocked in an operation for which rank 0 is late. Collective.
[[nodiscard]] double waiting_cpu_percent(double seconds, int rank);

}  // namespace rueda::bench
