// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json_fields.hpp"
#include "base/text.hpp"
#include "launcher/top/screen.hpp"

namespace rueda::launcher {

namespace {

namespace fields = base::json_fields;

using Json = nlohmann::ordered_json;
using Read = fields::Json;

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

/// The maximum value of a number with a fraction. No time, rate or share is larger.
constexpr double kMostReal = 1e15;
/// The longest time, about 30 years in seconds. This time in nanoseconds fits into 64 bits.
constexpr double kMostSeconds = 1e9;

std::string text_at(const Read& object, const char* name) {
    std::string text;
    fields::read(object, name, text);
    return base::printable(text);
}

double real_of(const Read& value, const char* name, double most = kMostReal) {
    const double number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(std::abs(number) <= most)) {
        throw fields::Damage{fmt::format("'{}' is not a number up to {}", name, most)};
    }
    return number;
}

double real_at(const Read& object, const char* name) { return real_of(fields::member_of(object, name), name); }

std::optional<double> optional_real_at(const Read& object, const char* name) {
    const Read& value = fields::member_of(object, name);
    return value.is_null() ? std::nullopt : std::optional(real_of(value, name));
}

template <class T>
std::optional<T> optional_at(const Read& object, const char* name) {
    const Read& value = fields::member_of(object, name);
    return value.is_null() ? std::nullopt : std::optional(fields::number_of<T>(value, name));
}

template <class T>
T number_at(const Read& object, const char* name) {
    return fields::number_of<T>(fields::member_of(object, name), name);
}

bool flag_at(const Read& object, const char* name) {
    bool flag = false;
    fields::read(object, name, flag);
    return flag;
}

std::vector<Wait> waits_from(const Read& list) {
    std::vector<Wait> waits;
    for (const Read& wait : list) {
        const double seconds = real_of(fields::member_of(wait, "seconds"), "seconds", kMostSeconds);
        waits.push_back(
            {optional_at<std::int32_t>(wait, "rank").value_or(kOtherHosts), static_cast<std::int64_t>(seconds * 1e9)});
    }
    return waits;
}

std::vector<RankGpu> gpus_from(const Read& list) {
    std::vector<RankGpu> gpus;
    for (const Read& gpu : list) {
        gpus.push_back({number_at<std::uint32_t>(gpu, "index"), optional_real_at(gpu, "utilization"),
                        optional_at<std::uint64_t>(gpu, "used_bytes"), optional_at<std::uint64_t>(gpu, "total_bytes")});
    }
    return gpus;
}

RankRow row_from(const Read& rank) {
    RankRow row;
    row.rank = number_at<std::int32_t>(rank, "rank");
    row.pid = optional_at<std::int32_t>(rank, "pid").value_or(0);
    row.process = text_at(rank, "process");
    row.step = optional_at<std::int64_t>(rank, "step").value_or(-1);
    row.step_seconds = optional_real_at(rank, "step_seconds");
    row.in_step_seconds = optional_real_at(rank, "in_step_seconds");
    row.waiting_share = optional_real_at(rank, "waiting_share");
    row.waits = waits_from(fields::array_of(rank, "waits_for"));
    row.operations_per_second = optional_real_at(rank, "operations_per_second");
    row.batches_per_second = optional_real_at(rank, "batches_per_second");
    row.bytes_per_second = optional_real_at(rank, "bytes_per_second");
    row.cpu_share = optional_real_at(rank, "cpu_share");
    row.resident_bytes = number_at<std::uint64_t>(rank, "resident_bytes");
    row.scope = text_at(rank, "scope");
    row.pending = text_at(rank, "pending");
    if (const std::optional<double> runs = optional_real_at(rank, "runs_outside_share")) {
        row.outside =
            TimeOutside{*runs, real_at(rank, "threads_run_outside_share"), real_at(rank, "sleeps_outside_share")};
    }
    row.idle_share = optional_real_at(rank, "idle_share");
    row.gpus = gpus_from(fields::array_of(rank, "gpus"));
    row.is_straggler = flag_at(rank, "is_straggler");
    row.seems_bound_by_input = flag_at(rank, "seems_bound_by_input");
    row.waits_for_own_threads = flag_at(rank, "waits_for_own_threads");
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

TopView view_of(const Read& document) {
    if (!document.is_object()) {
        throw fields::Damage{"it is not an object"};
    }
    TopView view;
    view.job.id = text_at(document, "id");
    view.job.program = text_at(document, "program");
    view.job.was_aborted = !fields::member_of(document, "abort_reason").is_null();
    view.job.abort_reason = view.job.was_aborted ? text_at(document, "abort_reason") : "";
    view.interval_seconds = real_at(document, "interval_seconds");
    const std::string state = text_at(document, "state");
    const double age_seconds = real_of(fields::member_of(document, "age_seconds"), "age_seconds", kMostSeconds);
    for (const Read& rank : fields::array_of(document, "ranks")) {
        view.rows.push_back(row_from(rank));
        view.has_gpus = view.has_gpus || !view.rows.back().gpus.empty();
        view.job.ranks.push_back(sample_from(view.rows.back(), state, age_seconds));
    }
    return view;
}

Json document_of(const TopView& view) {
    Json ranks = Json::array();
    for (const RankRow& row : view.rows) {
        ranks.push_back(json_of(row));
    }
    const JobSample& job = view.job;
    return {{"id", job.id},
            {"program", job.program},
            {"state", name_of(job.state())},
            {"abort_reason", job.was_aborted ? Json(job.abort_reason) : Json(nullptr)},
            {"age_seconds", job.age_seconds()},
            {"interval_seconds", view.interval_seconds},
            {"ranks", std::move(ranks)}};
}

}  // namespace

std::string view_as_json(const TopView& view) { return document_of(view).dump(2) + "\n"; }

std::string view_as_json_line(const TopView& view) { return document_of(view).dump() + "\n"; }

Result<TopView> view_from_json(const std::string& text) {
    constexpr const char* kRefused = "its answer cannot be read; is it the same version of Rueda? ({})";
    try {
        return view_of(Read::parse(text));
    } catch (const fields::Damage& damage) {
        return failure(ErrorCode::invalid_argument, kRefused, base::printable(damage.text));
    } catch (const nlohmann::json::exception& error) {
        return failure(ErrorCode::invalid_argument, kRefused, base::printable(error.what()));
    }
}

std::string hosts_as_json(std::span<const HostAnswer> answers) {
    Json hosts = Json::array();
    for (const HostAnswer& answer : answers) {
        const Result<TopView> view = answer.problem.empty()
                                         ? view_from_json(answer.json)
                                         : failure(ErrorCode::invalid_argument, "{}", answer.problem);
        hosts.push_back({{"host", answer.host},
                         {"problem", view.is_ok() ? Json(nullptr) : Json(view.status().message())},
                         {"job", view.is_ok() ? document_of(view.value()) : Json(nullptr)}});
    }
    const Json document = {{"hosts", std::move(hosts)}};
    return document.dump(2) + "\n";
}

}  // namespace rueda::launcher
