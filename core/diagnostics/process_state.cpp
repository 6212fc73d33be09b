// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/process_state.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/system/process_status.hpp"
#include "base/text.hpp"

namespace rueda::core {
namespace {

/// Describes the process that traces another process, for example "gdb, pid 17". If the tracer is in another pid
/// namespace, its pid is 0 here and is not shown.
std::string describe_tracer(std::int32_t tracer) {
    std::string name = base::read_small_file(fmt::format("/proc/{}/comm", tracer)).value_or("");
    while (!name.empty() && name.back() == '\n') {
        name.pop_back();
    }
    return name.empty() ? fmt::format("pid {}", tracer) : fmt::format("{}, pid {}", base::printable(name, 32), tracer);
}

}  // namespace

std::int32_t parse_tracer(std::string_view text) {
    constexpr std::string_view kField = "\nTracerPid:";
    const std::size_t at = text.find(kField);
    if (at == std::string_view::npos) {
        return 0;
    }
    std::string_view value = text.substr(at + kField.size());
    value.remove_prefix(std::min(value.find_first_not_of("\t "), value.size()));
    return std::max(base::parse_integer<std::int32_t>(value.substr(0, value.find('\n'))).value_or(0), 0);
}

std::string describe_process(std::int32_t pid, std::uint64_t start_time) {
    if (start_time == 0) {
        return {};
    }
    const std::optional<base::ProcessStatus> status = base::read_process_status(pid);
    if (!status || status->start_time != start_time) {
        // Without a usable /proc, this process cannot know whether `pid` means the same process here. So this function
        // does not return "gone".
        return base::process_start_time(getpid()) != 0 && base::process_has_ended(pid, start_time) ? "gone" : "";
    }
    std::string state(base::describe_process_state(status->state));
    const std::int32_t tracer =
        parse_tracer(base::read_small_file(fmt::format("/proc/{}/status", pid)).value_or(std::string()));
    if (tracer > 0) {
        state += fmt::format("{}({})", status->state == 't' ? " " : ", in a debugger ", describe_tracer(tracer));
    }
    return state;
}

}  // namespace rueda::core
