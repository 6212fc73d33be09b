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

/// The metrics of all ranks of a host. A sample about a rank has the label `rank`, and one about a kind of operation
/// also has the label `kind`. Pure.
[[nodiscard]] std::vector<MetricFamily> families_of(const HostMetrics& host);

/// The metrics of the first rank in the list as a JSON object: its number as "rank", and for each metric a number, or
/// an object with a number for each kind of operation. There must be a rank. Pure.
[[nodiscard]] std::string json_of(const HostMetrics& host);

}  // namespace rueda::core
