// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/launcher_notification.hpp"
#include "base/text.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/diagnostics/stall_pattern.hpp"
#include "core/pending/set_identity.hpp"
#include "rueda/rueda.h"

namespace rueda::core {
namespace {

using Tensor = StallReport::Tensor;
using Ranks = std::vector<std::int32_t>;

/// The maximum number of lines about tensors. A report is read on a terminal, and with more lines its first sentence
/// would scroll out of sight.
constexpr std::size_t kTensorLines = 20;
constexpr std::size_t kTensorsPerRank = 4;

/// Prints the number as the user wrote it, without an exponent.
std::string setting_text(double seconds) {
    std::string text = fmt::format("{:.3f}", seconds);
    text.erase(text.find_last_not_of('0') + 1);
    return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string probable_cause(const StallPattern& pattern) { return "Probable cause: " + pattern.text; }

/// Returns the lines with the probable causes. They stand above the details of the report, because a reader should see
/// the cause first.
std::string pattern_lines(const StallReport& report) {
    std::string text;
    for (const StallPattern& pattern : find_stall_patterns(report)) {
        text += "\n  " + probable_cause(pattern);
    }
    return text;
}

std::string waits_text(const std::vector<Tensor>& waits_in) {
    if (waits_in.empty()) {
        return "waits in no collective itself";
    }
    std::string text = "waits itself in ";
    for (std::size_t i = 0; i < std::min(waits_in.size(), kTensorsPerRank); ++i) {
        // The text names only the call site of this rank.
        const std::string from = waits_in[i].sites.empty() ? "" : ", called from " + waits_in[i].sites.front().site;
        text += fmt::format("{}{} ({} s{})", i == 0 ? "" : ", ", name_of(waits_in[i]),
                            seconds_text(waits_in[i].seconds), from);
    }
    return waits_in.size() <= kTensorsPerRank ? text
                                              : fmt::format("{} and {} more", text, waits_in.size() - kTensorsPerRank);
}

const char* has_or_have(const Ranks& ranks) { return ranks.size() == 1 ? "has" : "have"; }

/// Says why a tensor, or a part of an operation, makes no progress, apart from missing ranks.
template <class Awaited>
std::string obstacle_text(const Awaited& tensor) {
    std::string text;
    if (!tensor.unseen.empty()) {
        const bool is_one = tensor.unseen.size() == 1;
        text += fmt::format("; {} may have announced it, but {} no room", base::format_ranks(tensor.unseen),
                            is_one ? "its mailbox has" : "their mailboxes have");
    }
    if (!tensor.unread.empty()) {
        text += fmt::format("; no room is free for it until {} {} read the log", base::format_ranks(tensor.unread),
                            has_or_have(tensor.unread));
    }
    if (!tensor.unfinished.empty()) {
        const char* const has = has_or_have(tensor.unfinished);
        text += "; " + base::format_ranks(tensor.unfinished) +
                (tensor.missing.empty() && tensor.unseen.empty()
                     ? fmt::format(" took the last step of the announcement and {} not finished it", has)
                     : fmt::format(" {} begun to handle the announcements and not finished", has));
    }
    return text;
}

std::string rank_line(const StallReport::Rank& rank) {
    std::string text = rank.host.empty() ? fmt::format("rank {} (pid {}): ", rank.rank, rank.pid)
                                         : fmt::format("rank {} on {} (pid {}): ", rank.rank, rank.host, rank.pid);
    if (!rank.process_state.empty()) {
        text += rank.process_state + "; ";
    }
    if (rank.step >= 0) {
        text += fmt::format("in step {}; ", rank.step);
    }
    if (rank.finished) {
        text +=
            fmt::format("last finished {} {} s ago; ", name_of(*rank.finished), seconds_text(rank.finished->seconds));
    }
    if (!rank.busy.empty()) {
        const std::string since =
            rank.busy_seconds < 0 ? "" : fmt::format(" for {} s", seconds_text(rank.busy_seconds));
        text += fmt::format("busy with {}{}; ", base::quote(rank.busy), since);
    }
    if (rank.takes_turns == false) {
        text += "the thread that executes the operation does not respond; ";
    }
    if (rank.steps_behind > 0) {
        text += fmt::format("{} step{} behind the rank that has done most; ", rank.steps_behind,
                            rank.steps_behind == 1 ? "" : "s");
    }
    if (rank.part) {
        text += fmt::format("has not delivered {}; ", name_of(*rank.part));
    }
    text += rank.on_gpu.empty() ? waits_text(rank.waits_in) : rank.on_gpu;
    if (rank.silent_seconds > 0) {
        text += fmt::format("; has not responded for {} s", seconds_text(rank.silent_seconds));
    }
    return text;
}

std::string rank_lines(const StallReport::Rank& rank) {
    std::string text = "\n  " + rank_line(rank);
    std::istringstream stack(rank.stack);
    for (std::string line; std::getline(stack, line);) {
        text += "\n    " + line;
    }
    return text;
}

std::string name_of(const AwaitedTensor& tensor) {
    if (tensor.name.empty()) {
        return describe_unnamed(tensor.call);
    }
    return fmt::format("{} {}", tensor.is_group ? "group" : "tensor", base::quote(tensor.name, RUEDA_MAX_NAME));
}

/// Says why this rank has not announced a part of its operation yet: the mailbox of this rank has no room.
std::string room_text(const WaitReport::Part& part) {
    std::string text = "this rank has not announced it yet, because its mailbox has no room";
    if (!part.unread.empty()) {
        text += fmt::format(" until {} {} read the log", base::format_ranks(part.unread), has_or_have(part.unread));
    } else if (!part.unfinished.empty()) {
        text += fmt::format(" until {} {} handled the announcements in it", base::format_ranks(part.unfinished),
                            has_or_have(part.unfinished));
    }
    return text;
}

/// Says which ranks have announced a part of the operation, and which have not.
std::string part_text(const WaitReport& report, const WaitReport::Part& part) {
    if (part.tensor.waits_behind != 0) {
        const std::string what = describe_unnamed(part.tensor.waits_behind);
        return part.missing.empty()
                   ? fmt::format("this rank has not announced it yet, because {} has not completed", what)
                   : fmt::format("this rank has not announced it yet, because {} waits for {}", what,
                                 base::format_ranks(part.missing));
    }
    if (part.gpu >= 0) {
        return fmt::format("it waits for the work of GPU {} of this rank", part.gpu);
    }
    if (report.kind != WaitReport::Kind::collective) {
        const bool sends = report.kind == WaitReport::Kind::send;
        return part.missing.size() == 1
                   ? fmt::format("rank {} has not {} it", part.missing.front(), sends ? "received" : "sent")
                   : fmt::format("none of {} has sent it", base::format_ranks(part.missing));
    }
    if (part.tensor.waits_for_room) {
        return room_text(part);
    }
    if (!part.known) {
        return "it is not known which rank it waits for";
    }
    const std::string obstacles = obstacle_text(part);
    if (!part.missing.empty() || !part.unseen.empty()) {
        std::string text;
        if (!part.missing.empty()) {
            text = fmt::format("{} {} not announced it", base::format_ranks(part.missing), has_or_have(part.missing));
            text += part.ready.empty()
                        ? ""
                        : fmt::format(", {} {}", base::format_ranks(part.ready), has_or_have(part.ready));
        } else {
            text = fmt::format("{} {} announced it", base::format_ranks(part.ready), has_or_have(part.ready));
        }
        text += obstacles;
        return report.elsewhere.empty() ? text
                                        : fmt::format("{}; of {}, on other hosts, this rank does not know it", text,
                                                      base::format_ranks(report.elsewhere));
    }
    if (!report.elsewhere.empty()) {
        return fmt::format(
            "all ranks of this host have announced it{}{} {}, on other hosts, may not have; the stall report will say "
            "which",
            obstacles, obstacles.empty() ? ", and" : "; and", base::format_ranks(report.elsewhere));
    }
    return obstacles.empty() ? "all ranks have announced it, and it is under way"
                             : "all ranks have announced it" + obstacles;
}

/// The first sentence of a report. For tensors, it is the sentence that users search for; other kinds of waits have
/// other sentences.
std::string first_line(const StallReport& report) {
    const auto is_all = [&report](auto&& is_such) {
        return !report.tensors.empty() && std::all_of(report.tensors.begin(), report.tensors.end(), is_such);
    };
    const std::string warning = setting_text(report.warning_seconds);
    if (report.on_gpus == StallReport::OnGpus::launched && !report.tensors.empty()) {
        return fmt::format(
            "the {} of {}{} was launched on the GPUs of {} {} seconds ago and is still not done: a GPU makes no "
            "progress",
            report.operation, name_of(report.tensors.front()),
            report.others == 0 ? "" : fmt::format(" and {} more", report.others), known_to_have_launched(report),
            seconds_text(report.tensors.front().seconds));
    }
    if (report.executing) {
        return fmt::format(
            "{} was announced by all ranks {} seconds ago and is still not done: a rank makes no progress",
            report.tensors.empty() ? "a tensor" : name_of(report.tensors.front()),
            report.tensors.empty() ? warning : seconds_text(report.tensors.front().seconds));
    }
    if (is_all([](const Tensor& tensor) { return is_name_of_end(tensor.name); })) {
        return first_line_about_end(report.tensors.front().name, warning);
    }
    return fmt::format(
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
        "for remainder of ranks for more than {} seconds. This may indicate that different ranks are trying to submit "
        "different tensors or that only subset of ranks is submitting tensors, which will cause deadlock.",
        warning);
}

std::string describe_tensor(const StallReport& report, const Tensor& tensor) {
    if (report.on_gpus == StallReport::OnGpus::launching) {
        return fmt::format("{}: not launched for {} s; launched: {}; not launched: {}", name_of(tensor),
                           seconds_text(tensor.seconds), base::format_ranks(tensor.ready),
                           base::format_ranks(tensor.missing));
    }
    if (report.executing) {
        return fmt::format("{}: not done for {} s; done: {}; not done: {}", name_of(tensor),
                           seconds_text(tensor.seconds), base::format_ranks(tensor.ready),
                           base::format_ranks(tensor.missing));
    }
    if (tensor.message && tensor.message->waits_for_gpu) {
        return fmt::format("{}: waiting for {} s; missing: the GPU of {}", name_of(tensor),
                           seconds_text(tensor.seconds), base::format_ranks(tensor.ready));
    }
    const bool is_of_a_set = tensor.message && tensor.missing.empty();
    return fmt::format("{}: waiting for {} s; ready: {}; missing: {}{}{}{}", name_of(tensor),
                       seconds_text(tensor.seconds), base::format_ranks(tensor.ready),
                       is_of_a_set ? "a rank of its process set" : base::format_ranks(tensor.missing),
                       obstacle_text(tensor), called_from(tensor.sites),
                       tensor.name.empty() ? describe_started(report.started) : "");
}

}  // namespace

std::string name_of(const StallReport::Tensor& tensor) {
    if (is_name_of_end(tensor.name) || is_name_of_join(tensor.name) || tensor.message) {
        return base::printable(tensor.name);
    }
    if (tensor.name == kSetChangeName) {
        return "add_process_set() or remove_process_set()";
    }
    return tensor.name.empty() ? describe_unnamed(tensor.call)
                               : fmt::format("tensor {}", base::quote(tensor.name, RUEDA_MAX_NAME));
}

std::string name_of(const StallReport::Part& part) {
    if (part.kind == StallReport::Part::Kind::resident_share) {
        return "its share of the tensors in resident memory";
    }
    return fmt::format("its {} of chunk {} of {}", part.kind == StallReport::Part::Kind::input ? "input" : "share",
                       part.chunk, part.chunks);
}

std::string seconds_text(double seconds) {
    constexpr double kWithoutFraction = 10;
    if (seconds >= kWithoutFraction) {
        return fmt::format("{:.0f}", seconds);
    }
    const std::string text = fmt::format("{:.1f}", std::max(seconds, 0.0));
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string_view known_to_have_launched(const StallReport& report) {
    return report.elsewhere.empty() ? "all ranks" : "all ranks of this host";
}

std::string text_about_elsewhere(const StallReport& report) {
    return fmt::format("{} {} on {}, and may not have {}", base::format_ranks(report.elsewhere),
                       report.elsewhere.size() == 1 ? "is" : "are",
                       report.elsewhere.size() == 1 ? "another host" : "other hosts",
                       report.on_gpus == StallReport::OnGpus::launched ? "launched it" : "done their part");
}

std::vector<std::int32_t> StallReport::Tensor::awaited() const {
    std::set<std::int32_t> ranks(missing.begin(), missing.end());
    ranks.insert(unfinished.begin(), unfinished.end());
    ranks.insert(unread.begin(), unread.end());
    ranks.insert(unseen.begin(), unseen.end());
    return {ranks.begin(), ranks.end()};
}

std::string format_awaited(const WaitReport& report) {
    if (report.parts.empty()) {
        return {};
    }
    const AwaitedTensor& first = report.parts.front().tensor;
    const std::string name = report.kind == WaitReport::Kind::collective ? name_of(first) : first.name;
    return report.parts.size() == 1 ? name : fmt::format("{} and {} more", name, report.parts.size() - 1);
}

std::string format_wait(const WaitReport& report) {
    // Makes one line, because an error is one line. A few tensors are enough, because the tensors of a group are
    // usually missing on the same ranks.
    constexpr std::size_t kParts = 3;
    constexpr std::size_t kRanks = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(report.parts.size(), kParts); ++i) {
        const WaitReport::Part& part = report.parts[i];
        text += i == 0 ? "" : "; ";
        text += report.parts.size() == 1 ? "" : name_of(part.tensor) + ": ";
        text += part_text(report, part);
    }
    if (report.parts.size() > kParts) {
        text += fmt::format("; and {} more tensors", report.parts.size() - kParts);
    }
    for (std::size_t i = 0; i < std::min(report.ranks.size(), kRanks); ++i) {
        text += "; " + rank_line(report.ranks[i]);
    }
    return text;
}

std::string format_stall_report(const StallReport& report) {
    std::string text = first_line(report) + pattern_lines(report);
    for (std::size_t i = 0; i < std::min(report.tensors.size(), kTensorLines); ++i) {
        text += "\n  " + describe_tensor(report, report.tensors[i]);
    }
    if (report.tensors.size() > kTensorLines) {
        text += fmt::format("\n  and {} more tensors", report.tensors.size() - kTensorLines);
    }
    if (!report.unheard.empty()) {
        text += fmt::format("\n  {}: nothing was heard from the host", base::format_ranks(report.unheard));
    }
    if (!report.elsewhere.empty()) {
        text += fmt::format("\n  {}", text_about_elsewhere(report));
    }
    for (const StallReport::Rank& rank : report.missing_ranks) {
        text += rank_lines(rank);
    }
    return text;
}

std::string summarize_stall(const StallReport& report) {
    const std::vector<StallPattern> patterns = find_stall_patterns(report);
    if (!patterns.empty()) {
        return probable_cause(patterns.front());
    }
    return report.tensors.empty() ? std::string() : describe_tensor(report, report.tensors.front());
}

std::string format_stall_shutdown(const Tensor& tensor, double shutdown_seconds, const StartedByRank& started) {
    const Ranks awaited = tensor.awaited();
    const bool is_on_gpu = tensor.message && tensor.message->waits_for_gpu;
    const std::string waits = awaited.empty() ? "not ended after"
                                              : fmt::format("waited for {}{} for", is_on_gpu ? "the GPU of " : "",
                                                            base::format_ranks(awaited));
    return fmt::format("{} has {} {} s, {}{}); ready: {}{}{}; the job is ended{}", name_of(tensor), waits,
                       seconds_text(tensor.seconds), base::kReasonOfStall, setting_text(shutdown_seconds),
                       base::format_ranks(tensor.ready), obstacle_text(tensor), called_from(tensor.sites),
                       tensor.name.empty() ? describe_started(started) : "");
}

}  // namespace rueda::core
