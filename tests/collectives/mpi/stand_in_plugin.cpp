// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A plugin that claims to be built with MPICH. It can be loaded without MPI, but opens no control plane.
#include "collectives/mpi/plugin_interface.hpp"
#include "rueda/version.h"

namespace rueda::collectives {
namespace {

Result<OpenedMpi> open_nothing(const MpiControlPlaneOptions& /*options*/) {
    return failure(ErrorCode::unsupported, "there is no MPI behind this plugin");
}

constexpr MpiPlugin kPlugin{kMpiPluginInterface, RUEDA_VERSION, MpiAbi::mpich, open_nothing};

}  // namespace
}  // namespace rueda::collectives

extern "C" __attribute__((visibility("default"))) const rueda::collectives::MpiPlugin* rueda_mpi_plugin_open(
    std::uint32_t interface_version) {
    return interface_version == rueda::collectives::kMpiPluginInterface ? &rueda::collectives::kPlugin : nullptr;
}
