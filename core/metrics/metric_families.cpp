// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/metrics/metric_families.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace rueda::core {
namespace {

// kHostMetrics, kKindMetrics and kRankMetrics list all metrics. docs/metrics.md explains them; a test compares that
// page with these tables.

struct HostMetric {
    const char* name;
    MetricType type;
    const char* help;
    double (*read)(const HostMetrics& host);
};
struct RankMetric {
    const char* name;
    MetricType type;
    const char* help;
    double (*read)(const RankMetrics& rank);
};
struct KindMetric {
    const char* name;
    MetricType type;
    const char* help;
    double (*read)(const OperationMetrics& kind);
};

constexpr double as_number(std::uint64_t value) { return static_cast<double>(value); }

constexpr std::array kHostMetrics{
    HostMetric{"rueda_job_ranks", MetricType::gauge, "Number of ranks of the job, on all hosts.",
               [](const HostMetrics& host) { return static_cast<double>(host.job_ranks); }},
    HostMetric{"rueda_job_aborted", MetricType::gauge, "1 if the job was aborted, otherwise 0.",
               [](const HostMetrics& host) { return host.is_aborted ? 1.0 : 0.0; }},
};

constexpr std::array kKindMetrics{
    KindMetric{"rueda_operations_total", MetricType::counter, "Operations that ended with success.",
               [](const OperationMetrics& kind) { return as_number(kind.count); }},
    KindMetric{"rueda_operation_bytes_total", MetricType::counter, "Bytes of the rank's tensors in these operations.",
               [](const OperationMetrics& kind) { return as_number(kind.bytes); }},
    KindMetric{"rueda_operation_waiting_seconds_total", MetricType::counter,
               "Time from the announcement of an operation to its execution, summed over operations.",
               [](const OperationMetrics& kind) { return kind.waiting_seconds; }},
    KindMetric{"rueda_operation_executing_seconds_total", MetricType::counter,
               "Time from the beginning of the execution of an operation to its end, summed over operations.",
               [](const OperationMetrics& kind) { return kind.executing_seconds; }},
};

constexpr std::array kRankMetrics{
    RankMetric{"rueda_rank_up", MetricType::gauge, "1 if the rank takes part in the job, otherwise 0.",
               [](const RankMetrics& rank) { return rank.is_up ? 1.0 : 0.0; }},
    RankMetric{"rueda_operations_failed_total", MetricType::counter, "Operations that ended with an error.",
               [](const RankMetrics& rank) { return as_number(rank.failed); }},
    RankMetric{"rueda_operations_pending", MetricType::gauge,
               "Operations that the rank announced and that have not ended.",
               [](const RankMetrics& rank) { return as_number(rank.pending); }},
    RankMetric{"rueda_oldest_pending_operation_seconds", MetricType::gauge,
               "Time since the oldest pending operation was announced; 0 if none is pending.",
               [](const RankMetrics& rank) { return rank.oldest_pending_seconds; }},
    RankMetric{"rueda_batches_total", MetricType::counter, "Batches that were executed.",
               [](const RankMetrics& rank) { return as_number(rank.batches); }},
    RankMetric{"rueda_batched_operations_total", MetricType::counter, "Operations in these batches.",
               [](const RankMetrics& rank) { return as_number(rank.batched); }},
    RankMetric{"rueda_steps_total", MetricType::counter, "Training steps that the program has begun in this process.",
               [](const RankMetrics& rank) { return as_number(rank.steps); }},
    RankMetric{"rueda_step", MetricType::gauge, "The training step that began last; -1 if none has begun.",
               [](const RankMetrics& rank) { return static_cast<double>(rank.step); }},
    RankMetric{"rueda_stall_reports_total", MetricType::counter, "Reports about stalls that the rank made.",
               [](const RankMetrics& rank) { return as_number(rank.stall_reports); }},
    RankMetric{"rueda_resident_bytes", MetricType::gauge, "Resident memory that the program has allocated.",
               [](const RankMetrics& rank) { return as_number(rank.resident_bytes); }},
};

template <class Metric>
MetricFamily family_of(const Metric& metric) {
    return {metric.name, metric.help, metric.type, {}};
}

std::string name_of_kind(std::size_t kind) {
    return std::string(base::name_of_record_kind(static_cast<std::uint8_t>(kind)));
}

/// Whether there are metrics for this kind of operation. join() has no metrics, because the flight recorder does not
/// record it.
constexpr bool is_counted(std::size_t kind) { return kind != base::RecordKind::kJoin; }

/// Returns whole numbers as JSON integers, so that Python reads them as int.
nlohmann::ordered_json json_number(double value) {
    if (value == std::floor(value) && std::abs(value) < 9e15) {
        return static_cast<std::int64_t>(value);
    }
    return value;
}

}  // namespace

std::vector<MetricFamily> families_of(const HostMetrics& host) {
    std::vector<MetricFamily> families;
    for (const HostMetric& metric : kHostMetrics) {
        families.push_back(family_of(metric));
        families.back().samples.push_back({{}, metric.read(host)});
    }
    for (const RankMetric& metric : kRankMetrics) {
        families.push_back(family_of(metric));
        for (const RankMetrics& rank : host.ranks) {
            families.back().samples.push_back({{{"rank", std::to_string(rank.rank)}}, metric.read(rank)});
        }
    }
    for (const KindMetric& metric : kKindMetrics) {
        families.push_back(family_of(metric));
        for (const RankMetrics& rank : host.ranks) {
            for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
                if (is_counted(kind)) {
                    families.back().samples.push_back(
                        {{{"rank", std::to_string(rank.rank)}, {"kind", name_of_kind(kind)}},
                         metric.read(rank.operations[kind])});
                }
            }
        }
    }
    return families;
}

std::string json_of(const HostMetrics& host) {
    const RankMetrics& rank = host.ranks.front();
    nlohmann::ordered_json object{{"rank", rank.rank}};
    for (const HostMetric& metric : kHostMetrics) {
        object[metric.name] = json_number(metric.read(host));
    }
    for (const RankMetric& metric : kRankMetrics) {
        object[metric.name] = json_number(metric.read(rank));
    }
    for (const KindMetric& metric : kKindMetrics) {
        nlohmann::ordered_json& kinds = object[metric.name];
        for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
            if (is_counted(kind)) {
                kinds[name_of_kind(kind)] = json_number(metric.read(rank.operations[kind]));
            }
        }
    }
    return object.dump();
}

}  // namespace rueda::core
