// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/supervisor_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/launcher_notification.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

/// A report consists of lines with a name and a value. The reason of an abort comes last, because it may contain
/// several lines.
constexpr std::string_view kByLauncher = "by_launcher";
constexpr std::string_view kSteps = "steps ";
constexpr std::string_view kOomKills = "oom_kills ";
constexpr std::string_view kAborted = "aborted ";

/// Parses a text such as "3 17" (first and last step). If the text has another form, the result says that no step is
/// known.
base::StepSpan parse_steps(std::string_view text) {
    const auto first = base::parse_integer<std::int64_t>(take_until(text, ' '));
    const auto last = base::parse_integer<std::int64_t>(text);
    const base::StepSpan steps{first.value_or(-1), last.value_or(-1)};
    return steps.is_known() ? steps : base::StepSpan();
}

/// Parses a text such as "2 /sys/fs/cgroup/memory.events".
OomKills parse_kills(std::string_view text) {
    // the message also contains advice after the path; if the path were longer, the advice would not fit into the
    // message
    constexpr std::size_t kLongestPath = 256;
    const auto processes = base::parse_integer<std::uint64_t>(take_until(text, ' '));
    return processes.value_or(0) == 0 ? OomKills() : OomKills{*processes, base::printable(text, kLongestPath)};
}

}  // namespace

std::string encode_greeting(const Greeting& greeting) {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", greeting.host, greeting.master_port, greeting.host_key, greeting.gpus,
                       greeting.endpoints, greeting.rendezvous);
}

Greeting parse_greeting(std::string_view text) {
    Greeting greeting;
    greeting.host = take_until(text, '\n');
    std::erase_if(greeting.host, [](char c) { return c <= ' ' || c > '~'; });
    greeting.master_port = base::parse_integer<std::uint16_t>(take_until(text, '\n')).value_or(0);
    greeting.host_key = take_until(text, '\n');
    greeting.gpus = take_until(text, '\n');
    greeting.endpoints = take_until(text, '\n');
    greeting.rendezvous = take_until(text, '\n');
    return greeting;
}

std::string encode_report(const RankEnd& end) {
    std::string text = end.by_launcher ? fmt::format("{}\n", kByLauncher) : "";
    if (end.steps.is_known()) {
        text += fmt::format("{}{} {}\n", kSteps, end.steps.first, end.steps.last);
    }
    if (end.oom_kills.processes != 0) {
        text += fmt::format("{}{} {}\n", kOomKills, end.oom_kills.processes, end.oom_kills.counted_in);
    }
    return end.abort_reason.empty() ? text : text + std::string(kAborted) + end.abort_reason;
}

void read_report(std::string_view text, RankEnd& end) {
    while (!text.empty()) {
        if (text.starts_with(kAborted)) {
            end.abort_reason = base::printable(text.substr(kAborted.size()), base::kMostLauncherText);
            return;
        }
        const std::string_view line = take_until(text, '\n');
        end.by_launcher = end.by_launcher || line == kByLauncher;
        if (line.starts_with(kSteps)) {
            end.steps = parse_steps(line.substr(kSteps.size()));
        } else if (line.starts_with(kOomKills)) {
            end.oom_kills = parse_kills(line.substr(kOomKills.size()));
        }
    }
}

}  // namespace rueda::launcher
