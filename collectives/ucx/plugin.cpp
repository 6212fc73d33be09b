// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Defines the plugin's entry function, the only symbol that librueda_ucx.so exports.
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
