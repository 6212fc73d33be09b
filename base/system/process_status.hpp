// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::base {

/// What /proc/<pid>/stat says about a process.
struct ProcessStatus {
    char state = '?';  ///< field 3: R, S, D, T, t, Z, X, …
    std::int64_t threads = 0;
    std::uint64_t start_time = 0;      ///< field 22, ticks since boot: tells apart two processes that had the same pid
    std::uint64_t cpu_ticks = 0;       ///< fields 14 and 15: processor time of all threads
    std::uint64_t resident_pages = 0;  ///< field 24

    /// Whether the process has ended, even if its parent has not yet collected its status. 'Z' may also mean that only
    /// the main thread ended and other threads still run.
    [[nodiscard]] bool has_ended() const { return state == 'X' || state == 'x' || (state == 'Z' && threads <= 1); }
};

/// Returns nothing if the text has another form. The command name may contain anything, even ") R 1".
[[nodiscard]] std::optional<ProcessStatus> parse_process_status(std::string_view text);

/// Returns nothing if there is no such process or no /proc.
[[nodiscard]] std::optional<ProcessStatus> read_process_status(std::int32_t pid);

/// Returns 0 if there is no such process or no /proc.
[[nodiscard]] std::uint64_t process_start_time(std::int32_t pid);

/// Whether the process that had this number and this start time has ended, with all its threads. If the number now
/// belongs to another process, the process has ended.
[[nodiscard]] bool process_has_ended(std::int32_t pid, std::uint64_t start_time);

/// The state in words, for example 'S' → "sleeping".
[[nodiscard]] std::string_view describe_process_state(char state);

}  // namespace rueda::base
