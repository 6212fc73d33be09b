// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/process_status.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/files.hpp"
#include "base/numbers.hpp"

namespace rueda::base {
namespace {

/// Removes the next field from the text and returns it. Fields are separated by blanks. Returns an empty text at the
/// end.
std::string_view take_field(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    const std::string_view field = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(field.size());
    return field;
}

}  // namespace

std::optional<ProcessStatus> parse_process_status(std::string_view text) {
    // proc(5) numbers the fields from 1. Field 2 is the command, which may contain anything. The later fields contain
    // no parenthesis, so the last closing parenthesis in the line ends the command.
    constexpr std::size_t kState = 3;
    constexpr std::size_t kUserTicks = 14;
    constexpr std::size_t kSystemTicks = 15;
    constexpr std::size_t kThreads = 20;
    constexpr std::size_t kStartTime = 22;
    constexpr std::size_t kResidentPages = 24;
    const std::size_t end_of_command = text.rfind(')');
    if (end_of_command == std::string_view::npos) {
        return std::nullopt;
    }
    text.remove_prefix(end_of_command + 1);
    std::array<std::string_view, kResidentPages + 1> fields;
    for (std::size_t field = kState; field < fields.size(); ++field) {
        fields[field] = take_field(text);
    }
    const auto threads = parse_integer<std::int64_t>(fields[kThreads]);
    const auto user_ticks = parse_integer<std::uint64_t>(fields[kUserTicks]);
    const auto system_ticks = parse_integer<std::uint64_t>(fields[kSystemTicks]);
    const auto start_time = parse_integer<std::uint64_t>(fields[kStartTime]);
    const auto resident_pages = parse_integer<std::uint64_t>(fields[kResidentPages]);
    // If the text ends directly after a number, digits of this number may be missing, so the text is refused.
    if (text.empty() || fields[kState].size() != 1 || threads.value_or(-1) < 0 || !user_ticks || !system_ticks ||
        !start_time || !resident_pages) {
        return std::nullopt;
    }
    return ProcessStatus{fields[kState].front(), *threads, *start_time, *user_ticks + *system_ticks, *resident_pages};
}

std::optional<ProcessStatus> read_process_status(std::int32_t pid) {
    const std::optional<std::string> text = read_small_file(fmt::format("/proc/{}/stat", pid));
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

}  // namespace rueda::base
