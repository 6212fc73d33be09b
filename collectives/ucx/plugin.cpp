// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Defines the plugin's two functions, the only symbols that librueda_ucx.so exports.
#include <string>

#include "collectives/ucx/plugin_interface.hpp"
#include "collectives/ucx/ucx_transport.hpp"
#include "rueda/version.h"

namespace rueda::collectives {
namespace {

constexpr UcxPlugin kUcxPlugin{kUcxPluginInterface, RUEDA_VERSION, make_ucx_transport};

}  // namespace
}  // namespace rueda::collectives

extern "C" __attribute__((visibility("default"))) const rueda::collectives::UcxPlugin* rueda_ucx_plugin_open(
    std::uint32_t interface_version) {
    return interface_version == rueda::collectives::kUcxPluginInterface ? &rueda::collectives::kUcxPlugin : nullptr;
}

/// For `rueda doctor`: makes a worker and destroys it. Returns why UCX does not work in this process; null if it works.
/// The text is valid until the next call. Threads: one at a time.
extern "C" __attribute__((visibility("default"))) const char* rueda_ucx_plugin_check() {
    static std::string reason;
    reason = rueda::collectives::make_ucx_transport(0, 1).status().message();
    return reason.empty() ? nullptr : reason.c_str();
}
