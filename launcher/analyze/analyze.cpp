// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/analyze.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "launcher/analyze/read_recordings.hpp"
#include "launcher/options/command_app.hpp"

namespace rueda::launcher {

namespace {

using Json = nlohmann::ordered_json;

/// At most this many pending operations, and this many sends and receives, are listed. The others are only counted. A
/// program with one thread has at most one pending operation, send or receive at a time.
constexpr std::size_t kMostPending = 20;

std::string seconds(std::int64_t ns) {
    const double value = static_cast<double>(ns) / 1e9;
    return value >= 1 ? fmt::format("{:.1f} s", value) : fmt::format("{:.1f} ms", value * 1e3);
}

std::string name_of_set(std::int32_t id) { return id == 0 ? "the world" : fmt::format("process set {}", id); }

void add_divergence(std::string& text, const Divergence& divergence) {
    const auto& [set_id, most, other] = divergence;
    text += fmt::format("  {} called {} where {} called {}: operation {} of {}", base::format_ranks(other.ranks),
                        other.what.describe(), base::format_ranks(most.ranks), most.what.describe(), most.ordinal,
                        name_of_set(set_id));
    if (other.ordinal != most.ordinal) {
        text += fmt::format(" (on {}: operation {})", base::format_ranks(other.ranks), other.ordinal);
    }
    text += '\n';
}

/// Adds whether the execution of the operation had begun, and which ranks had launched it on their GPUs.
void add_launches(std::string& text, const PendingOperation& pending, bool is_executing) {
    std::vector<std::int32_t> launched;
    std::vector<std::int32_t> not_launched;
    for (const PendingCall& call : pending.calls) {
        (call.is_launched ? launched : not_launched).push_back(call.rank);
    }
    if (launched.empty()) {
        text += is_executing ? "; its execution had begun" : "";
        return;
    }
    text += fmt::format("; launched, and not done by the GPU{} of {}", launched.size() == 1 ? "" : "s",
                        base::format_ranks(launched));
    if (!not_launched.empty()) {
        text += fmt::format("; {} had not launched it", base::format_ranks(not_launched));
    }
    if (!pending.ended.empty()) {
        text += fmt::format("; it had ended on {}", base::format_ranks(pending.ended));
    }
}

void add_pending(std::string& text, const PendingOperation& pending) {
    std::vector<std::int32_t> ranks;
    std::int64_t longest = 0;
    bool is_executing = false;
    for (const PendingCall& call : pending.calls) {
        ranks.push_back(call.rank);
        longest = std::max(longest, call.waited_ns);
        is_executing = is_executing || call.is_executing;
    }
    text += fmt::format("  {}: {} called it, and waited for up to {}", pending.what.describe(),
                        base::format_ranks(ranks), seconds(longest));
    if (!pending.missing.empty()) {
        text += fmt::format("; {} did not call it", base::format_ranks(pending.missing));
    }
    if (!pending.unknown.empty()) {
        text += fmt::format("; it is not known whether {} called it", base::format_ranks(pending.unknown));
    }
    add_launches(text, pending, is_executing);
    text += pending.set_id != 0 ? fmt::format(" ({})", name_of_set(pending.set_id)) : "";
    text += '\n';
}

void add_message(std::string& text, const PendingMessage& message) {
    const std::int32_t peer = message.what.message->peer;
    text += fmt::format("  rank {} waited {} in a {} ({} bytes)", message.rank, seconds(message.waited_ns),
                        message.what.describe(), message.bytes);
    text += message.is_blocking ? "" : ", in the background";
    text += message.set_id == 0  ? ""
            : message.set_id > 0 ? fmt::format(" ({})", name_of_set(message.set_id))
                                 : " (setting up a process set)";
    const std::string whom = peer < 0 ? "a rank" : fmt::format("rank {}", peer);
    const char* const side = message.what.kind == "send" ? "receive" : "send";
    switch (message.other_side) {
        case PendingMessage::OtherSide::called:
            text += fmt::format("; {} waited in the {}", whom, side);
            break;
        case PendingMessage::OtherSide::not_called:
            text += fmt::format("; {} did not wait in {} {}", peer < 0 ? "no rank" : whom, peer < 0 ? "such a" : "its",
                                side);
            break;
        case PendingMessage::OtherSide::unknown:
            text += fmt::format("; it is not known whether {} called the {}", whom, side);
            break;
    }
    text += '\n';
}

void add_messages(std::string& text, const PendingMessages& pending) {
    if (pending.messages.empty()) {
        return;
    }
    text += "\nPending sends and receives:\n";
    for (const CrossedSends& crossed : pending.crossed) {
        text += fmt::format("  ranks {} and {} each waited in a blocking send to the other; neither received\n",
                            crossed.rank, crossed.other);
    }
    const std::size_t shown = std::min(pending.messages.size(), kMostPending);
    for (const PendingMessage& message : std::span(pending.messages).first(shown)) {
        add_message(text, message);
    }
    if (pending.messages.size() > shown) {
        text += fmt::format("  and {} more\n", pending.messages.size() - shown);
    }
}

void add_rank(std::string& text, const LastOfRank& rank) {
    text += fmt::format("  rank {}{}: {}", rank.rank, rank.host.empty() ? "" : " on " + base::printable(rank.host),
                        base::printable(rank.state));
    text += rank.step >= 0 ? fmt::format(", step {}", rank.step) : "";
    text += rank.busy.empty() ? "" : ", in " + base::quote(rank.busy);
    text += fmt::format("; {} operations", rank.operations);
    text += rank.messages > 0 ? fmt::format(", {} sends and receives", rank.messages) : "";
    text += rank.last ? fmt::format("; the last that ended was {}, {} before this was written", rank.last->describe(),
                                    seconds(rank.since_ns))
                      : std::string();
    text += '\n';
}

void add_lateness(std::string& text, const Lateness& late) {
    text += fmt::format("  rank {}: last in {} of {} operations", late.rank, late.last, late.compared);
    text += late.last > 0 ? fmt::format("; the others waited {} for it alone, {} of this in {}",
                                        seconds(late.awaited_ns), seconds(late.longest_ns), late.longest_in)
                          : std::string();
    text += '\n';
}

Json json_of(const OperationText& what) {
    if (what.message) {
        return {{"kind", what.kind}, {"peer", what.message->peer}, {"tag", what.message->tag}};
    }
    return {{"kind", what.kind}, {"name", what.name}, {"call", what.name.empty() ? what.generation : 0}};
}

Json json_of(const PendingMessage& message) {
    constexpr std::array kOtherSides{"called", "not called", "unknown"};
    return {{"rank", message.rank},
            {"set", message.set_id},
            {"operation", json_of(message.what)},
            {"bytes", message.bytes},
            {"waited_seconds", static_cast<double>(message.waited_ns) / 1e9},
            {"blocking", message.is_blocking},
            {"other_side", kOtherSides[static_cast<std::size_t>(message.other_side)]}};
}

Json json_of(const Divergence::Side& side) {
    return {{"operation", json_of(side.what)}, {"ordinal", side.ordinal}, {"ranks", side.ranks}};
}

Json json_of(const PendingOperation& pending) {
    Json calls = Json::array();
    for (const PendingCall& call : pending.calls) {
        calls.push_back({{"rank", call.rank},
                         {"ordinal", call.ordinal},
                         {"waited_seconds", static_cast<double>(call.waited_ns) / 1e9},
                         {"executing", call.is_executing},
                         {"launched", call.is_launched}});
    }
    return {{"set", pending.set_id},     {"operation", json_of(pending.what)},
            {"calls", std::move(calls)}, {"missing", pending.missing},
            {"ended", pending.ended},    {"unknown", pending.unknown}};
}

Json json_of(const LastOfRank& rank) {
    Json json{{"rank", rank.rank},        {"host", rank.host}, {"state", rank.state},
              {"step", rank.step},        {"busy", rank.busy}, {"operations", rank.operations},
              {"messages", rank.messages}};
    if (rank.last) {
        json["last"] = json_of(*rank.last);
        json["last_ended_seconds_before"] = static_cast<double>(rank.since_ns) / 1e9;
    }
    return json;
}

Json json_of(const Lateness& late) {
    return {{"rank", late.rank},
            {"compared", late.compared},
            {"last", late.last},
            {"awaited_seconds", static_cast<double>(late.awaited_ns) / 1e9},
            {"longest_seconds", static_cast<double>(late.longest_ns) / 1e9},
            {"longest_in", late.longest_in}};
}

}  // namespace

std::string format_analysis(const Analysis& analysis) {
    std::string text = fmt::format("{} of {} ranks left files", analysis.ranks.size(), analysis.size);
    text += analysis.without_file.empty() ? "" : "; none of " + base::format_ranks(analysis.without_file);
    text += fmt::format(". They were written because: {}\n", base::printable(analysis.reason, 1000));
    if (!analysis.divergences.empty()) {
        text += "\nThe ranks diverge:\n";
        for (const Divergence& divergence : analysis.divergences) {
            add_divergence(text, divergence);
        }
    }
    text += analysis.pending.empty() ? "\nNo operation was pending.\n" : "\nPending operations:\n";
    for (std::size_t i = 0; i < std::min(analysis.pending.size(), kMostPending); ++i) {
        add_pending(text, analysis.pending[i]);
    }
    if (analysis.pending.size() > kMostPending) {
        text += fmt::format("  and {} more\n", analysis.pending.size() - kMostPending);
    }
    add_messages(text, analysis.pending_messages);
    text += "\nRanks:\n";
    for (const LastOfRank& rank : analysis.ranks) {
        add_rank(text, rank);
    }
    if (!analysis.lateness.empty()) {
        text += fmt::format("\nLate by more than {}, in operations that all ranks of a set have recorded{}:\n",
                            seconds(Lateness::kLateNs),
                            analysis.several_hosts ? " (hosts are compared by their clocks, which may differ)" : "");
        for (const Lateness& late : analysis.lateness) {
            add_lateness(text, late);
        }
    }
    return text;
}

std::string format_analysis_json(const Analysis& analysis) {
    Json json{{"size", analysis.size},
              {"reason", analysis.reason},
              {"without_file", analysis.without_file},
              {"several_hosts", analysis.several_hosts},
              {"divergences", Json::array()},
              {"pending", Json::array()},
              {"pending_messages", Json::array()},
              {"ranks", Json::array()},
              {"lateness", Json::array()}};
    for (const Divergence& divergence : analysis.divergences) {
        json["divergences"].push_back(
            {{"set", divergence.set_id}, {"most", json_of(divergence.most)}, {"other", json_of(divergence.other)}});
    }
    for (const PendingOperation& pending : analysis.pending) {
        json["pending"].push_back(json_of(pending));
    }
    for (const PendingMessage& message : analysis.pending_messages.messages) {
        json["pending_messages"].push_back(json_of(message));
    }
    for (const LastOfRank& rank : analysis.ranks) {
        json["ranks"].push_back(json_of(rank));
    }
    for (const Lateness& late : analysis.lateness) {
        json["lateness"].push_back(json_of(late));
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int run_analyze(std::span<const std::string> arguments) {
    CommandApp command(
        {"rueda analyze", "[--json] DIR",
         "Compares what the ranks of a job did last. The files are those that the flight recorder writes to\n"
         "RUEDA_DIAGNOSTICS_DIR when a job is aborted or stands still.",
         "Examples:\n"
         "  rueda analyze diagnostics\n"
         "  rueda analyze --json diagnostics\n"
         "\n"
         "Exit status: 0 if no rank diverges and nothing was pending, 1 if ranks diverge or operations were\n"
         "pending, 2 if the files cannot be read, 3 if rueda was called wrongly.\n"});
    std::string folder;
    bool as_json = false;
    command.options().add_option("DIR", folder, "The folder with the files, recorder-rank0.json and so on")->required();
    command.options().add_flag("--json", as_json, "Print JSON");
    if (const std::optional<int> status = command.parse(arguments)) {
        return *status;
    }
    const Result<std::vector<base::Recording>> recordings = read_recordings(folder);
    if (!recordings.is_ok()) {
        fmt::print(stderr, "rueda analyze: {}\n", recordings.status().message());
        return static_cast<int>(AnalyzeExit::failed);
    }
    const Analysis analysis = analyze(recordings.value());
    fmt::print("{}", as_json ? format_analysis_json(analysis) : format_analysis(analysis));
    return static_cast<int>(analysis.is_clean() ? AnalyzeExit::clean : AnalyzeExit::finding);
}

}  // namespace rueda::launcher
