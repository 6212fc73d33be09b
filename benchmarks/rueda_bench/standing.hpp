// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::bench {

/// Memory that this process has to itself plus its part of what it shares (PSS), from /proc/self/smaps_rollup; 0 where
/// that cannot be read.
[[nodiscard]] std::uint64_t proportional_bytes();

/// CPU time of all threads of this process so far, in seconds.
[[nodiscard]] double cpu_seconds();

/// Share of one core that this process takes while it does nothing for so long, in percent.
[[nodiscard]] double idle_cpu_percent(double seconds);
/// The same while it is blocked in an operation that rank 0 is late for. Collective.
[[nodiscard]] double waiting_cpu_percent(double seconds, int rank);

}  // namespace rueda::bench
