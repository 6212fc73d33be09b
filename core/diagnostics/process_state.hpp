// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rueda::core {

/// Reads the text of /proc/<pid>/status. Returns the pid of the process that traces this process, for example of its
/// debugger. Returns 0 if no process traces it, or if the text has another form.
[[nodiscard]] std::int32_t parse_tracer(std::string_view text);

/// Describes, for people, the state of the process with this pid and this start time. Examples: "sleeping", "stopped by
/// a signal", "sleeping, in a debugger (gdb, pid 17)". Returns "gone" if there is no such process any more. Returns ""
/// if the start time is 0 or /proc tells nothing.
[[nodiscard]] std::string describe_process(std::int32_t pid, std::uint64_t start_time);

}  // namespace rueda::core
