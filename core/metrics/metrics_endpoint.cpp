// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/metrics/metrics_endpoint.hpp"

#include <filesystem>
#include <string>
#include <utility>

#include "collectives/plugin_file.hpp"

namespace rueda::core {
namespace {

constexpr const char* kPluginFile = "librueda_prometheus.so";
constexpr collectives::PluginKind kMetricsPluginKind{"plugin", kMetricsPluginEntry, kMetricsPluginInterface};

}  // namespace

Result<std::unique_ptr<MetricsEndpoint>> open_metrics_endpoint(const MetricsAddress& address, CollectMetrics collect) {
    const std::string file = collectives::find_plugin_file(kPluginFile);
    if (file.empty()) {
        return failure(ErrorCode::unsupported,
                       "the plugin {} was not found in {}: build Rueda where prometheus-cpp is installed (Debian: "
                       "prometheus-cpp-dev), or read the metrics with rueda_metrics() or rueda.metrics()",
                       kPluginFile,
                       std::filesystem::path(collectives::plugin_places(kPluginFile).front()).parent_path().string());
    }
    const auto plugin = collectives::load_plugin_file<MetricsPlugin>(file, kMetricsPluginKind);
    RUEDA_RETURN_IF_FAILED(plugin.status());
    return plugin.value()->open(address, std::move(collect));
}

}  // namespace rueda::core
