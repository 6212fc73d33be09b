// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Defines the plugin's entry function, the only symbol that librueda_mpi.so exports.
#include "collectives/mpi/mpi_control_plane.hpp"
#include "rueda/version.h"

namespace rueda::collectives {
namespace {

Result<OpenedMpi> open_plane(const MpiControlPlaneOptions& options) {
    return open_mpi_control_plane(real_mpi(), options);
}

constexpr MpiPlugin kPlugin{kMpiPluginInterface, RUEDA_VERSION, own_mpi_abi(), open_plane};

}  // namespace
}  // namespace rueda::collectives

extern "C" __attribute__((visibility("default"))) const rueda::collectives::MpiPlugin* rueda_mpi_plugin_open(
    std::uint32_t interface_version) {
    return interface_version == rueda::collectives::kMpiPluginInterface ? &rueda::collectives::kPlugin : nullptr;
}
