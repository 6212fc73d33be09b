// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/metrics/metric_families.hpp"

namespace rueda::core {

/// The version of the interface. Increase this number with every change to anything that librueda and the plugin share,
/// including MetricFamily.
inline constexpr std::uint32_t kMetricsPluginInterface = 1;
inline constexpr const char* kMetricsPluginEntry = "rueda_prometheus_plugin_open";

/// An endpoint from which a monitoring system fetches the metrics. After the destructor returns, no thread of the
/// endpoint runs.
class MetricsEndpoint {
public:
    MetricsEndpoint() = default;
    MetricsEndpoint(const MetricsEndpoint&) = delete;
    MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;
    virtual ~MetricsEndpoint() = default;
};

/// Returns the current metrics. Threads of the endpoint call this for each request, possibly several at the same time.
using CollectMetrics = std::function<std::vector<MetricFamily>()>;

/// The address and port on which the endpoint listens.
struct MetricsAddress {
    std::string address;  ///< an IPv4 or IPv6 address in numbers
    std::uint32_t port = 0;
};

/// The functions of the plugin. The struct is part of the plugin, which is never unloaded.
struct MetricsPlugin {
    std::uint32_t interface_version;
    /// Opens an endpoint. Fails with Unsupported if the endpoint cannot listen on the address.
    Result<std::unique_ptr<MetricsEndpoint>> (*open)(const MetricsAddress& address, CollectMetrics collect);
};

}  // namespace rueda::core
