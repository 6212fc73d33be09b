// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/metrics/metrics_endpoint.hpp"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plugin_file.hpp"

namespace rueda::core {
namespace {

constexpr const char* kPluginFile = "librueda_prometheus.so";
constexpr const char* kMetricsPluginKind = "plugin";

Result<const MetricsPlugin*> load_metrics_plugin(const std::string& file) {
    // The plugin is never unloaded, because its libraries may have registered functions for the exit of the process.
    const auto address =
        collectives::open_plugin_file(file, kMetricsPluginEntry, collectives::PluginScope::own, kMetricsPluginKind);
    RUEDA_RETURN_IF_FAILED(address.status());
    const MetricsPlugin* const plugin = reinterpret_cast<MetricsPluginEntry>(address.value())(kMetricsPluginInterface);
    if (plugin == nullptr || plugin->interface_version != kMetricsPluginInterface) {
        return collectives::other_plugin_version(file, kMetricsPluginKind, kMetricsPluginInterface);
    }
    return plugin;
}

}  // namespace

Result<std::unique_ptr<MetricsEndpoint>> open_metrics_endpoint(const MetricsAddress& address, CollectMetrics collect) {
    const std::vector<std::string> places = collectives::plugin_places(kPluginFile);
    for (const std::string& file : places) {
        if (::access(file.c_str(), F_OK) == 0) {
            const Result<const MetricsPlugin*> plugin = load_metrics_plugin(file);
            RUEDA_RETURN_IF_FAILED(plugin.status());
            return plugin.value()->open(address, std::move(collect));
        }
    }
    return failure(ErrorCode::unsupported,
                   "the plugin {} was not found in {}: build Rueda where prometheus-cpp is installed (Debian: "
                   "prometheus-cpp-dev), or read the metrics with rueda_metrics() or rueda.metrics()",
                   kPluginFile, std::filesystem::path(places.front()).parent_path().string());
}

}  // namespace rueda::core
