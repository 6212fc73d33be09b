// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::base {

/// The facts about a process from /proc/<pid>/stat.
struct ProcessStatus {
    char state = '?';  ///< field 3: R, S, D, T, t, Z, X, … (proc(5))
    std::int64_t threads = 0;
    std::uint64_t start_time = 0;      ///< field 22: start time in ticks since boot; if the kernel uses a pid again,
                                       ///< the new process has another start time
    std::uint64_t cpu_ticks = 0;       ///< fields 14 and 15: CPU time of all threads
    std::uint64_t resident_pages = 0;  ///< field 24: pages in memory

    /// Whether the process has ended, even if its parent has not yet collected its exit status. State 'Z' alone is not
    /// enough: the main thread may have ended while other threads still run.
    [[nodiscard]] bool has_ended() const { return state == 'X' || state == 'x' || (state == 'Z' && threads <= 1); }
};

/// Parses the text of /proc/<pid>/stat. Returns nothing if the text has another form. The command name in it may
/// contain anything, even ") R 1".
[[nodiscard]] std::optional<ProcessStatus> parse_process_status(std::string_view text);

/// Reads /proc/<pid>/stat. Returns nothing if there is no such process or no /proc.
[[nodiscard]] std::optional<ProcessStatus> read_process_status(std::int32_t pid);

/// Returns the start time in ticks since boot, or 0 if there is no such process or no /proc.
[[nodiscard]] std::uint64_t process_start_time(std::int32_t pid);

/// Whether the process with this pid and this start time has ended, with all its threads. If another process has this
/// pid now, the result is true.
[[nodiscard]] bool process_has_ended(std::int32_t pid, std::uint64_t start_time);

/// Describes a process state in words, for example 'S' as "sleeping".
[[nodiscard]] std::string_view describe_process_state(char state);

}  // namespace rueda::base
