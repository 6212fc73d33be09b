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

/// How much memory this process could use when the limits were read. Other processes allocate memory at any time, so a
/// check against these numbers finds most shortages of memory in advance, but not all of them.
struct MemoryLimits {
    static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

    /// The smaller of two amounts: the machine's available memory, and what the control groups still allow. Files in
    /// the page cache count as free, because the kernel drops them when memory is needed.
    std::uint64_t available_bytes = kUnlimited;
    /// The file that contained the smallest limit: "/proc/meminfo", "/sys/fs/cgroup/memory.max", …
    std::string available_source;
    /// RLIMIT_AS (ulimit -v) minus the mapped address space.
    std::uint64_t address_space_left_bytes = kUnlimited;
};

/// Reads the current limits. Fails with Unsupported if the system reports nothing about its memory.
[[nodiscard]] Result<MemoryLimits> read_memory_limits();
/// Like read_memory_limits(), but with the given files and the given RLIMIT_AS.
[[nodiscard]] Result<MemoryLimits> read_memory_limits(const FileReader& read, std::uint64_t address_space_limit_bytes);

/// Fails with ResourceExhausted if less than `needed_bytes` bytes are left. The message says what needs the memory, how
/// much is needed and left, which limit applies, and what to do. The message begins with `what`, for example "the arena
/// of host 'n1'".
[[nodiscard]] Status check_memory(const MemoryLimits& limits, std::uint64_t needed_bytes, std::string_view what);
/// Makes the same check with the current limits. If the system reports nothing about its memory, the check succeeds.
[[nodiscard]] Status check_memory(std::uint64_t needed_bytes, std::string_view what);

}  // namespace rueda::base
