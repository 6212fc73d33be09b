// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <vector>

#include "core/metrics/plugin_interface.hpp"

namespace rueda::core {

/// The same metrics in the types of prometheus-cpp. Pure.
[[nodiscard]] std::vector<prometheus::MetricFamily> to_prometheus(const std::vector<MetricFamily>& families);

/// Answers GET /metrics on this address. See MetricsPlugin::open.
[[nodiscard]] Result<std::unique_ptr<MetricsEndpoint>> open_prometheus_endpoint(const MetricsAddress& address,
                                                                                CollectMetrics collect);

}  // namespace rueda::core
