// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/process_status.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "base/files.hpp"
#include "base/numbers.hpp"

namespace rueda::core {
namespace {

/// Returns the next field of the text; fields are separated by blanks. Returns "" at the end.
std::string_view take_field(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    const std::string_view field = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(field.size());
    return field;
}

}  // namespace

std::optional<ProcessStatus> parse_process_status(std::string_view text) {
    // proc(5) numbers the fields from 1; the command is the second one. The fields behind it are only a letter and
    // numbers, so the last closing parenthesis in the line is the end of the command.
    constexpr int kState = 3;
    constexpr int kThreads = 20;
    constexpr int kStartTime = 22;
    const std::size_t end_of_command = text.rfind(')');
    if (end_of_command == std::string_view::npos) {
        return std::nullopt;
    }
    text.remove_prefix(end_of_command + 1);
    ProcessStatus status;
    for (int field = kState; field <= kStartTime; ++field) {
        const std::string_view value = take_field(text);
        if (field == kState && value.size() == 1) {
            status.state = value.front();
        } else if (field == kThreads && base::parse_integer<std::int64_t>(value).value_or(-1) >= 0) {
            status.threads = *base::parse_integer<std::int64_t>(value);
        } else if (field == kStartTime && base::parse_integer<std::uint64_t>(value)) {
            status.start_time = *base::parse_integer<std::uint64_t>(value);
        } else if (field == kState || field == kThreads || field == kStartTime) {
            return std::nullopt;
        }
    }
    // A number at the very end of the text may be the beginning of a longer number that was cut.
    return text.empty() ? std::nullopt : std::optional(status);
}

std::optional<ProcessStatus> read_process_status(std::int32_t pid) {
    const std::optional<std::string> text = base::read_small_file(fmt::format("/proc/{}/stat", pid));
    return text ? parse_process_status(*text) : std::nullopt;
}

std::uint64_t process_start_time(std::int32_t pid) {
    const std::optional<ProcessStatus> status = read_process_status(pid);
    return status ? status->start_time : 0;
}

bool process_has_ended(std::int32_t pid, std::uint64_t start_time) {
    if (const std::optional<ProcessStatus> status = read_process_status(pid)) {
        return status->has_ended() || status->start_time != start_time;
    }
    return kill(pid, 0) != 0 && errno == ESRCH;
}

std::string_view describe_process_state(char state) {
    switch (state) {
        case 'R':
            return "running";
        case 'S':
        case 'I':
            return "sleeping";
        case 'D':
            return "waiting for a device";
        case 'T':
            return "stopped by a signal";
        case 't':
            return "stopped by a debugger";
        case 'Z':
        case 'X':
        case 'x':
            return "ended";
        default:
            return "in an unknown state";
    }
}

}  // namespace rueda::core
