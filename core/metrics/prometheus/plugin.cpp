// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The only symbol that librueda_prometheus.so exports.
#include "core/metrics/prometheus/exposition.hpp"

namespace {

constexpr rueda::core::MetricsPlugin kPlugin{rueda::core::kMetricsPluginInterface,
                                             rueda::core::open_prometheus_endpoint};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rueda::core::MetricsPlugin* rueda_prometheus_plugin_open(
    std::uint32_t interface_version) {
    return interface_version == rueda::core::kMetricsPluginInterface ? &kPlugin : nullptr;
}
