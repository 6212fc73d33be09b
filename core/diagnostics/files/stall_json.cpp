// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/files/stall_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/diagnostics/stall_pattern.hpp"

namespace rueda::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

/// Milliseconds are exact enough, and keep the file readable.
double rounded(double seconds) { return std::round(seconds * 1e3) / 1e3; }

template <class Value>
Json value_or_null(bool is_known, const Value& value) {
    return is_known ? Json(value) : Json(nullptr);
}

Json json_of(const std::vector<SiteOfRanks>& sites) {
    Json list = Json::array();
    for (const SiteOfRanks& site : sites) {
        list.push_back({{"site", site.site}, {"ranks", site.ranks}});
    }
    return list;
}

/// Makes the fields that all entries about operations have in common: which operation it is, and how long it has
/// waited.
Json operation_of(const StallReport::Tensor& tensor) {
    return {{"what", name_of(tensor)},
            {"name", value_or_null(!tensor.name.empty(), tensor.name)},
            {"unnamed_call", value_or_null(tensor.call != 0, tensor.call)},
            {"seconds", rounded(tensor.seconds)}};
}

Json json_of(const StallReport::Tensor& tensor) {
    Json json = operation_of(tensor);
    json["ready"] = tensor.ready;
    json["missing"] = tensor.missing;
    json["unfinished"] = tensor.unfinished;
    json["unread"] = tensor.unread;
    json["unseen"] = tensor.unseen;
    json["called_from"] = json_of(tensor.sites);
    return json;
}

Json json_of(const std::optional<StallReport::Part>& part) {
    if (!part) {
        return nullptr;
    }
    const bool has_chunk = part->chunk > 0;
    return {{"what", name_of(*part)},
            {"chunk", value_or_null(has_chunk, part->chunk)},
            {"chunks", value_or_null(has_chunk, part->chunks)}};
}

Json json_of(const StallReport::Rank& rank) {
    Json waits_in = Json::array();
    for (const StallReport::Tensor& tensor : rank.waits_in) {
        Json one = operation_of(tensor);
        one["called_from"] = json_of(tensor.sites);
        waits_in.push_back(std::move(one));
    }
    const bool is_busy = !rank.busy.empty();
    return {{"rank", rank.rank},
            {"pid", rank.pid},
            {"host", rank.host},
            {"process_state", rank.process_state},
            {"step", value_or_null(rank.step >= 0, rank.step)},
            {"last_finished", rank.finished ? operation_of(*rank.finished) : Json(nullptr)},
            {"busy", value_or_null(is_busy, rank.busy)},
            {"busy_seconds", value_or_null(is_busy && rank.busy_seconds >= 0, rounded(rank.busy_seconds))},
            {"waits_in", std::move(waits_in)},
            {"takes_turns", rank.takes_turns ? Json(*rank.takes_turns) : Json(nullptr)},
            {"steps_behind", rank.steps_behind},
            {"not_delivered", json_of(rank.part)},
            {"on_gpu", value_or_null(!rank.on_gpu.empty(), rank.on_gpu)},
            {"silent_seconds", rounded(rank.silent_seconds)},
            {"stack", value_or_null(!rank.stack.empty(), rank.stack)}};
}

/// Makes a JSON list from a map. Each element of the list has a number (under the name `key`), and the ranks that
/// belong to this number.
template <class Map>
Json json_of(const char* key, const Map& ranks_by_number) {
    Json list = Json::array();
    for (const auto& [number, ranks] : ranks_by_number) {
        list.push_back({{key, number}, {"ranks", ranks}});
    }
    return list;
}

Json json_of(const StallEntry& entry);

Json name_of(StallReport::OnGpus on_gpus) {
    switch (on_gpus) {
        case StallReport::OnGpus::no:
            break;
        case StallReport::OnGpus::launching:
            return "launching";
        case StallReport::OnGpus::launched:
            return "launched";
    }
    return nullptr;
}

template <class List>
Json list_of(const List& list) {
    Json json = Json::array();
    for (const auto& one : list) {
        json.push_back(json_of(one));
    }
    return json;
}

Json json_of(const StallEntry& entry) {
    const StallReport& report = entry.report;
    Json patterns = Json::array();
    for (const StallPattern& pattern : find_stall_patterns(report)) {
        patterns.push_back(
            {{"kind", std::string(name_of(pattern.kind))}, {"ranks", pattern.ranks}, {"text", pattern.text}});
    }
    auto steps = report.steps;
    steps.erase(-1);  // removes the ranks that have not reported a step
    return {{"unix_seconds", rounded(entry.unix_seconds)},
            {"process_set", entry.process_set},
            {"ends_job", value_or_null(!entry.ends_job.empty(), entry.ends_job)},
            {"executing", report.executing},
            {"on_gpus", name_of(report.on_gpus)},
            {"warning_seconds", report.warning_seconds},
            {"probable_causes", std::move(patterns)},
            {"tensors", list_of(report.tensors)},
            {"ranks", list_of(report.missing_ranks)},
            {"unheard", report.unheard},
            {"elsewhere", report.elsewhere},
            {"steps", json_of("step", steps)},
            {"unnamed_started", json_of("operations", report.started)},
            {"text", format_stall_report(report)}};
}

}  // namespace

std::string to_json(const StallWriter& writer, const std::deque<StallEntry>& entries) {
    const Json json = {{"format", "rueda-stall-report"},
                       {"version", kVersion},
                       {"rank", writer.rank},
                       {"pid", writer.pid},
                       {"host", writer.host},
                       {"reports", list_of(entries)}};
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rueda::core
