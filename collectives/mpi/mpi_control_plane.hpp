// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>

#include "collectives/mpi/mpi_api.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// Opens a control plane (the slow communication of ranks at the start) over `mpi`. The plugin passes the real MPI. If
/// MPI is not initialised, this function initialises it in the calling thread. The same thread must close the control
/// plane.
///
/// `chunk_bytes` is the maximum number of bytes that one MPI call receives. MPI counts bytes in an int, so there must
/// be a maximum. Tests use a small value.
[[nodiscard]] Result<OpenedMpi> open_mpi_control_plane(std::shared_ptr<MpiApi> mpi,
                                                       const MpiControlPlaneOptions& options,
                                                       std::size_t chunk_bytes = std::size_t{1} << 30);

/// Shortens the long text of MPI_Get_library_version, for example to "Open MPI 4.1.4".
[[nodiscard]] std::string short_mpi_version(const std::string& library_version);

}  // namespace rueda::collectives
