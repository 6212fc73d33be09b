// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <nlohmann/json.hpp>
#include <optional>

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

}  // namespace rueda::launcher
