// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The entry function of librueda_prometheus.so is the library's only exported symbol.
#include "core/metrics/prometheus/exposition.hpp"

namespace {

constexpr rueda::core::MetricsPlugin kPlugin{rueda::core::kMetricsPluginInterface,
                                             rueda::core::open_prometheus_endpoint};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rueda::core::MetricsPlugin* rueda_prometheus_plugin_open(
    std::uint32_t interface_version) {
    return interface_version == rueda::core::kMetricsPluginInterface ? &kPlugin : nullptr;
}
