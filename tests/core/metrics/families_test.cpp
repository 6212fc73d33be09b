// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the names, labels and values of the metrics, and that docs/metrics.md explains each metric.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "core/metrics/metric_families.hpp"

namespace rueda::tests {
namespace {

using core::HostMetrics;
using core::MetricFamily;
using core::MetricType;
using core::RankMetrics;

/// The metrics of two ranks of a job of five. Each number occurs only once, so that a test notices swapped values.
HostMetrics two_ranks() {
    HostMetrics host{.job_ranks = 5, .is_aborted = false, .ranks = {}};
    RankMetrics rank;
    rank.rank = 2;
    rank.is_up = true;
    rank.operations[base::RecordKind::kAllreduce] = {101, 102, 10.25, 10.5};
    rank.operations[base::RecordKind::kReduce] = {103, 104, 11.25, 11.5};
    rank.failed = 105;
    rank.pending = 106;
    rank.oldest_pending_seconds = 12.25;
    rank.batches = 107;
    rank.batched = 108;
    rank.steps = 109;
    rank.step = 110;
    rank.stall_reports = 111;
    rank.resident_bytes = 112;
    host.ranks.push_back(rank);
    RankMetrics other;
    other.rank = 4;
    host.ranks.push_back(other);
    return host;
}

/// Returns the value of a sample of the metric `name`. `labels` are the values of the sample's labels, for example "2"
/// (a rank) or "2 allreduce".
double value_of(const std::vector<MetricFamily>& families, const std::string& name, const std::string& labels) {
    for (const MetricFamily& family : families) {
        for (const core::MetricSample& sample : family.samples) {
            std::string found;
            for (const core::MetricLabel& label : sample.labels) {
                found += (found.empty() ? "" : " ") + label.value;
            }
            if (family.name == name && found == labels) {
                return sample.value;
            }
        }
    }
    FAIL("there is no sample " << name << " of " << labels);
    return 0;
}

std::set<std::string> names_on_the_page() {
    std::ifstream file(METRICS_PAGE);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::regex row("\n\\| `(rueda_[a-z_]+)` \\| [^|]+ \\| [^|]+ \\|(?=\n)");
    std::set<std::string> names;
    for (std::sregex_iterator found(text.begin(), text.end(), row); found != std::sregex_iterator(); ++found) {
        names.insert((*found)[1]);
    }
    return names;
}

}  // namespace

TEST_CASE("every metric is on the page, and the page has no other", "[unit]") {
    std::set<std::string> names;
    for (const MetricFamily& family : core::families_of(two_ranks())) {
        CHECK(names.insert(family.name).second);
    }
    CHECK(names == names_on_the_page());
}

TEST_CASE("names follow the conventions of Prometheus", "[unit]") {
    for (const MetricFamily& family : core::families_of(two_ranks())) {
        INFO(family.name);
        CHECK(std::regex_match(family.name, std::regex("rueda_[a-z_]+")));
        const bool is_total = family.name.ends_with("_total");
        CHECK(is_total == (family.type == MetricType::counter));
        CHECK(family.help.ends_with("."));
        CHECK_FALSE(family.samples.empty());
    }
}

TEST_CASE("each sample has the value of its rank and kind", "[unit]") {
    const std::vector<MetricFamily> families = core::families_of(two_ranks());
    CHECK(value_of(families, "rueda_job_ranks", "") == 5);
    CHECK(value_of(families, "rueda_job_aborted", "") == 0);
    CHECK(value_of(families, "rueda_rank_up", "2") == 1);
    CHECK(value_of(families, "rueda_rank_up", "4") == 0);
    CHECK(value_of(families, "rueda_operations_total", "2 allreduce") == 101);
    CHECK(value_of(families, "rueda_operation_bytes_total", "2 allreduce") == 102);
    CHECK(value_of(families, "rueda_operation_waiting_seconds_total", "2 allreduce") == 10.25);
    CHECK(value_of(families, "rueda_operation_executing_seconds_total", "2 allreduce") == 10.5);
    CHECK(value_of(families, "rueda_operations_total", "2 reduce") == 103);
    CHECK(value_of(families, "rueda_operation_bytes_total", "2 reduce") == 104);
    CHECK(value_of(families, "rueda_operations_total", "2 barrier") == 0);
    CHECK(value_of(families, "rueda_operations_total", "4 allreduce") == 0);
    CHECK(value_of(families, "rueda_operations_failed_total", "2") == 105);
    CHECK(value_of(families, "rueda_operations_pending", "2") == 106);
    CHECK(value_of(families, "rueda_oldest_pending_operation_seconds", "2") == 12.25);
    CHECK(value_of(families, "rueda_batches_total", "2") == 107);
    CHECK(value_of(families, "rueda_batched_operations_total", "2") == 108);
    CHECK(value_of(families, "rueda_steps_total", "2") == 109);
    CHECK(value_of(families, "rueda_step", "2") == 110);
    CHECK(value_of(families, "rueda_step", "4") == -1);
    CHECK(value_of(families, "rueda_stall_reports_total", "2") == 111);
    CHECK(value_of(families, "rueda_resident_bytes", "2") == 112);
}

TEST_CASE("the JSON of a rank has all metrics, and integers stay integers", "[unit]") {
    HostMetrics host = two_ranks();
    host.is_aborted = true;
    const std::string text = core::json_of(host);
    const auto json = nlohmann::json::parse(text);
    CHECK(json["rank"] == 2);
    CHECK(json["rueda_job_aborted"] == 1);
    CHECK(json["rueda_operations_total"]["allreduce"] == 101);
    CHECK(json["rueda_operations_total"]["allreduce"].is_number_integer());
    CHECK(json["rueda_operation_waiting_seconds_total"]["reduce"] == 11.25);
    CHECK(json["rueda_step"] == 110);
    // all kinds of operations except join, which is not counted
    CHECK(json["rueda_operations_total"].size() == core::kOperationKinds - 1);
    CHECK(json.size() == core::families_of(host).size() + 1);
    host.ranks.erase(host.ranks.begin());
    CHECK(nlohmann::json::parse(core::json_of(host))["rueda_step"] == -1);
}

}  // namespace rueda::tests
