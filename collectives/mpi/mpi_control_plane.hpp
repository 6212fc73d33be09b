// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>

#include "collectives/mpi/mpi_api.hpp"
#include "collectives/mpi/plugin_interface.hpp"

namespace rueda::collectives {

/// Opens a control plane over `mpi`. (The plugin's entry calls this with the real MPI.) Initialises MPI in the calling
/// thread unless it is initialised already. The same thread must close the plane.
///
/// `chunk_bytes` is the maximum number of bytes that one MPI call receives. There is a maximum because MPI counts in
/// int. Tests make it small.
[[nodiscard]] Result<OpenedMpi> open_mpi_control_plane(std::shared_ptr<MpiApi> mpi,
                                                       const MpiControlPlaneOptions& options,
                                                       std::size_t chunk_bytes = std::size_t{1} << 30);

/// Shortens the long text of MPI_Get_library_version, for example to "Open MPI 4.1.4".
[[nodiscard]] std::string short_mpi_version(const std::string& library_version);

}  // namespace rueda::collectives
