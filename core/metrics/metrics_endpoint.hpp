// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>

#include "core/metrics/plugin_interface.hpp"

namespace rueda::core {

/// Opens an endpoint for Prometheus, with the plugin librueda_prometheus.so. The plugin must lie in the folder of the
/// library or program that contains this code, or in that folder's subfolder "rueda". Fails with Unsupported if the
/// plugin is missing or the endpoint cannot listen; the message says what to do.
[[nodiscard]] Result<std::unique_ptr<MetricsEndpoint>> open_metrics_endpoint(const MetricsAddress& address,
                                                                             CollectMetrics collect);

}  // namespace rueda::core
