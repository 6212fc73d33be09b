// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "collectives/bulk_transport.hpp"

namespace rueda::collectives {

/// The version of the interface between librueda.so and its UCX plugin. Increase it when you change this file, or one
/// of the classes that it uses.
inline constexpr std::uint32_t kUcxPluginInterface = 2;
inline constexpr const char* kUcxPluginEntry = "rueda_ucx_plugin_open";

/// The functions of the plugin. The object lies in the plugin's library, which is never unloaded.
struct UcxPlugin {
    std::uint32_t interface_version;
    const char* rueda_version;
    /// Returns a transport for rank `rank` of `size` ranks. It communicates with no other rank before connect().
    Result<std::unique_ptr<BulkTransport>> (*create)(int rank, int size);
};

}  // namespace rueda::collectives
