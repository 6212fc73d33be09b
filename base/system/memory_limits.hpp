// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/status.hpp"

namespace rueda::base {

/// How much memory this process can still use, at the moment of reading. Other processes change it at any time. So a
/// check against it turns most shortages into an error message, but not all.
struct MemoryLimits {
    static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

    /// The minimum of what the machine has available and what the control groups leave. File contents in the page cache
    /// that were not used recently count as free, because the kernel drops them when memory is needed.
    std::uint64_t available_bytes = kUnlimited;
    /// The file with the deciding limit: "/proc/meminfo", "/sys/fs/cgroup/memory.max", …
    std::string available_source;
    /// RLIMIT_AS (ulimit -v) minus what is mapped.
    std::uint64_t address_space_left_bytes = kUnlimited;
};

/// Unsupported if the system tells nothing about its memory.
[[nodiscard]] Result<MemoryLimits> read_memory_limits();
/// The same, from given files and a given RLIMIT_AS.
[[nodiscard]] Result<MemoryLimits> read_memory_limits(const FileReader& read, std::uint64_t address_space_limit_bytes);

/// Fails with ResourceExhausted if less than `needed_bytes` are left. The message has what needs the memory, both
/// numbers, the limit, and what to do. `what` begins the sentence: "the arena of host 'n1'".
[[nodiscard]] Status check_memory(const MemoryLimits& limits, std::uint64_t needed_bytes, std::string_view what);
/// The same with the current limits. Succeeds if the system tells nothing about its memory, because no known limit is
/// exceeded.
[[nodiscard]] Status check_memory(std::uint64_t needed_bytes, std::string_view what);

}  // namespace rueda::base
