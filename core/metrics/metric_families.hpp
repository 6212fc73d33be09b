// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/metrics/host_metrics.hpp"

namespace rueda::core {

struct MetricLabel {
    std::string name;
    std::string value;
};

struct MetricSample {
    std::vector<MetricLabel> labels;
    double value = 0;
};

enum class MetricType : std::uint8_t {
    counter,  ///< a sum that only grows
    gauge,
};

/// A metric with all its samples, in the terms of Prometheus.
struct MetricFamily {
    std::string name;
    std::string help;  ///< one sentence
    MetricType type = MetricType::gauge;
    std::vector<MetricSample> samples;
};

/// Converts the metrics of all ranks of a host. A sample about a rank has the label `rank`; a sample about a kind of
/// operation also has the label `kind`. Pure.
[[nodiscard]] std::vector<MetricFamily> families_of(const HostMetrics& host);

/// Converts the metrics of the first rank in the list into a JSON object. The rank's number has the key "rank". Each
/// metric is a number, or an object with a number for each kind of operation. The list must not be empty. Pure.
[[nodiscard]] std::string json_of(const HostMetrics& host);

}  // namespace rueda::core
