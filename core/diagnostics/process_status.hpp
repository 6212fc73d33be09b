// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::core {

/// What /proc/<pid>/stat says about a process.
struct ProcessStatus {
    char state = '?';  ///< field 3: R, S, D, T, t, Z, X, …
    std::int64_t threads = 0;
    std::uint64_t start_time = 0;  ///< field 22, ticks since boot: tells two users of one pid apart

    /// Ended, whether its parent has asked for its status or not. A leader whose other threads go on is 'Z' as well.
    [[nodiscard]] bool has_ended() const { return state == 'X' || state == 'x' || (state == 'Z' && threads <= 1); }
};

/// Nothing for text of another form. The command name may hold anything, also ") R 1".
[[nodiscard]] std::optional<ProcessStatus> parse_process_status(std::string_view text);

/// Nothing where there is no such process or no /proc.
[[nodiscard]] std::optional<ProcessStatus> read_process_status(std::int32_t pid);

/// 0 where there is no such process or no /proc.
[[nodiscard]] std::uint64_t process_start_time(std::int32_t pid);

/// The process that had this number and this start time has ended: all of its threads. Where the number belongs to
/// another process now, it has.
[[nodiscard]] bool process_has_ended(std::int32_t pid, std::uint64_t start_time);

/// For people: 'S' → "sleeping".
[[nodiscard]] std::string_view describe_process_state(char state);

}  // namespace rueda::core
