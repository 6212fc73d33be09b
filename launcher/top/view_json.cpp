// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "launcher/top/screen.hpp"

namespace rueda::launcher {

namespace {

using Json = nlohmann::ordered_json;

Json value_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json waits_of(const RankRow& row) {
    Json list = Json::array();
    for (const Wait& wait : row.waits) {
        list.push_back({{"rank", wait.whom == kOtherHosts ? Json(nullptr) : Json(wait.whom)},
                        {"seconds", static_cast<double>(wait.ns) * 1e-9}});
    }
    return list;
}

Json bytes_of(const std::optional<std::uint64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

Json gpus_of(const RankRow& row) {
    Json list = Json::array();
    for (const RankGpu& gpu : row.gpus) {
        list.push_back({{"index", gpu.index},
                        {"utilization", value_of(gpu.utilization)},
                        {"used_bytes", bytes_of(gpu.used_bytes)},
                        {"total_bytes", bytes_of(gpu.total_bytes)}});
    }
    return list;
}

Json json_of(const RankRow& row) {
    return {{"rank", row.rank},
            {"pid", row.pid != 0 ? Json(row.pid) : Json(nullptr)},
            {"process", row.process},
            {"step", row.step >= 0 ? Json(row.step) : Json(nullptr)},
            {"step_seconds", value_of(row.step_seconds)},
            {"in_step_seconds", value_of(row.in_step_seconds)},
            {"waiting_share", value_of(row.waiting_share)},
            {"waits_for", waits_of(row)},
            {"operations_per_second", value_of(row.operations_per_second)},
            {"batches_per_second", value_of(row.batches_per_second)},
            {"bytes_per_second", value_of(row.bytes_per_second)},
            {"cpu_share", value_of(row.cpu_share)},
            {"resident_bytes", row.resident_bytes},
            {"scope", row.scope},
            {"pending", row.pending},
            {"runs_outside_share", row.outside ? Json(row.outside->runs) : Json(nullptr)},
            {"threads_run_outside_share", row.outside ? Json(row.outside->threads_run) : Json(nullptr)},
            {"sleeps_outside_share", row.outside ? Json(row.outside->sleeps) : Json(nullptr)},
            {"idle_share", value_of(row.idle_share)},
            {"gpus", gpus_of(row)},
            {"is_straggler", row.is_straggler},
            {"seems_bound_by_input", row.seems_bound_by_input},
            {"waits_for_own_threads", row.waits_for_own_threads}};
}

std::string text_at(const Json& object, const char* name) {
    return base::printable(object.at(name).get<std::string>());
}

template <class T>
std::optional<T> value_at(const Json& object, const char* name) {
    const Json& value = object.at(name);
    return value.is_null() ? std::nullopt : std::optional(value.get<T>());
}

std::vector<Wait> waits_from(const Json& list) {
    std::vector<Wait> waits;
    for (const Json& wait : list) {
        waits.push_back({value_at<std::int32_t>(wait, "rank").value_or(kOtherHosts),
                         static_cast<std::int64_t>(wait.at("seconds").get<double>() * 1e9)});
    }
    return waits;
}

std::vector<RankGpu> gpus_from(const Json& list) {
    std::vector<RankGpu> gpus;
    for (const Json& gpu : list) {
        gpus.push_back({gpu.at("index").get<std::uint32_t>(), value_at<double>(gpu, "utilization"),
                        value_at<std::uint64_t>(gpu, "used_bytes"), value_at<std::uint64_t>(gpu, "total_bytes")});
    }
    return gpus;
}

RankRow row_from(const Json& rank) {
    RankRow row;
    row.rank = rank.at("rank").get<std::int32_t>();
    row.pid = value_at<std::int32_t>(rank, "pid").value_or(0);
    row.process = text_at(rank, "process");
    row.step = value_at<std::int64_t>(rank, "step").value_or(-1);
    row.step_seconds = value_at<double>(rank, "step_seconds");
    row.in_step_seconds = value_at<double>(rank, "in_step_seconds");
    row.waiting_share = value_at<double>(rank, "waiting_share");
    row.waits = waits_from(rank.at("waits_for"));
    row.operations_per_second = value_at<double>(rank, "operations_per_second");
    row.batches_per_second = value_at<double>(rank, "batches_per_second");
    row.bytes_per_second = value_at<double>(rank, "bytes_per_second");
    row.cpu_share = value_at<double>(rank, "cpu_share");
    row.resident_bytes = rank.at("resident_bytes").get<std::uint64_t>();
    row.scope = text_at(rank, "scope");
    row.pending = text_at(rank, "pending");
    if (const std::optional<double> runs = value_at<double>(rank, "runs_outside_share")) {
        row.outside = TimeOutside{*runs, rank.at("threads_run_outside_share").get<double>(),
                                  rank.at("sleeps_outside_share").get<double>()};
    }
    row.idle_share = value_at<double>(rank, "idle_share");
    row.gpus = gpus_from(rank.at("gpus"));
    row.is_straggler = rank.at("is_straggler").get<bool>();
    row.seems_bound_by_input = rank.at("seems_bound_by_input").get<bool>();
    row.waits_for_own_threads = rank.at("waits_for_own_threads").get<bool>();
    return row;
}

/// The facts about a rank that the screen shows outside of the rank's row.
RankSample sample_from(const RankRow& row, const std::string& state, double age_seconds) {
    RankSample sample;
    sample.rank = row.rank;
    sample.pid = row.pid;
    sample.step = row.step;
    sample.state =
        state == name_of(JobState::shutting_down) ? base::RankState::shutting_down : base::RankState::running;
    if (row.pid != 0) {
        sample.process = ProcessSample{'?', 0, age_seconds, row.resident_bytes};
    }
    return sample;
}

TopView view_of(const Json& document) {
    TopView view;
    view.job.id = text_at(document, "id");
    view.job.program = text_at(document, "program");
    view.job.was_aborted = !document.at("abort_reason").is_null();
    view.job.abort_reason = view.job.was_aborted ? text_at(document, "abort_reason") : "";
    view.interval_seconds = document.at("interval_seconds").get<double>();
    const std::string state = text_at(document, "state");
    for (const Json& rank : document.at("ranks")) {
        view.rows.push_back(row_from(rank));
        view.has_gpus = view.has_gpus || !view.rows.back().gpus.empty();
        view.job.ranks.push_back(sample_from(view.rows.back(), state, document.at("age_seconds").get<double>()));
    }
    return view;
}

/// Adds the ranks of one host to those of others.
void add_host(TopView& all, const std::string& host, TopView one) {
    all.job.id += fmt::format("{}{} on {}", all.job.id.empty() ? "" : ", ", one.job.id, host);
    all.job.program = all.job.program.empty() ? one.job.program : all.job.program;
    if (one.job.was_aborted && !all.job.was_aborted) {
        all.job.was_aborted = true;
        all.job.abort_reason = one.job.abort_reason;
    }
    all.job.ranks.insert(all.job.ranks.end(), one.job.ranks.begin(), one.job.ranks.end());
    all.interval_seconds = std::max(all.interval_seconds, one.interval_seconds);
    all.has_gpus = all.has_gpus || one.has_gpus;
    for (RankRow& row : one.rows) {
        row.host = host;
        all.rows.push_back(std::move(row));
    }
}

}  // namespace

std::string view_as_json(const TopView& view) {
    Json ranks = Json::array();
    for (const RankRow& row : view.rows) {
        ranks.push_back(json_of(row));
    }
    const JobSample& job = view.job;
    const Json document = {{"id", job.id},
                           {"program", job.program},
                           {"state", name_of(job.state())},
                           {"abort_reason", job.was_aborted ? Json(job.abort_reason) : Json(nullptr)},
                           {"age_seconds", job.age_seconds()},
                           {"interval_seconds", view.interval_seconds},
                           {"ranks", std::move(ranks)}};
    return document.dump(2) + "\n";
}

Result<TopView> view_from_json(const std::string& text) {
    try {
        return view_of(Json::parse(text));
    } catch (const nlohmann::json::exception& error) {
        return failure(ErrorCode::invalid_argument, "its answer cannot be read; is it the same version of Rueda? ({})",
                       base::printable(error.what()));
    }
}

TopView merge_hosts(std::span<const HostAnswer> answers) {
    TopView all;
    for (const HostAnswer& answer : answers) {
        Result<TopView> one = answer.problem.empty() ? view_from_json(answer.json)
                                                     : failure(ErrorCode::invalid_argument, "{}", answer.problem);
        if (one.is_ok()) {
            add_host(all, answer.host, std::move(one).value());
        } else {
            all.problems.push_back(fmt::format("Host {} is not shown: {}", answer.host, one.status().message()));
        }
    }
    std::stable_sort(all.rows.begin(), all.rows.end(),
                     [](const RankRow& left, const RankRow& right) { return left.rank < right.rank; });
    return all;
}

std::string hosts_as_json(std::span<const HostAnswer> answers) {
    Json hosts = Json::array();
    for (const HostAnswer& answer : answers) {
        const Result<TopView> view = answer.problem.empty()
                                         ? view_from_json(answer.json)
                                         : failure(ErrorCode::invalid_argument, "{}", answer.problem);
        hosts.push_back({{"host", answer.host},
                         {"problem", view.is_ok() ? Json(nullptr) : Json(view.status().message())},
                         {"job", view.is_ok() ? Json::parse(answer.json) : Json(nullptr)}});
    }
    const Json document = {{"hosts", std::move(hosts)}};
    return document.dump(2) + "\n";
}

}  // namespace rueda::launcher
