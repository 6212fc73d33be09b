// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <vector>

#include "core/metrics/plugin_interface.hpp"

namespace rueda::core {

/// Converts metrics into the types of prometheus-cpp. Pure.
[[nodiscard]] std::vector<prometheus::MetricFamily> to_prometheus(const std::vector<MetricFamily>& families);

/// Opens an endpoint that answers GET /metrics on the address. See MetricsPlugin::open.
[[nodiscard]] Result<std::unique_ptr<MetricsEndpoint>> open_prometheus_endpoint(const MetricsAddress& address,
                                                                                CollectMetrics collect);

}  // namespace rueda::core
