// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collectives/control_plane.hpp"
#include "collectives/interruption.hpp"

namespace rueda::collectives {

struct SocketControlPlaneOptions {
    /// "@name" in the abstract namespace (it vanishes with the processes), or "/path" in a folder of mode 0700 that
    /// belongs to this user; the path is unlinked as soon as all ranks have come.
    std::string rendezvous;
    int rank = 0;
    int size = 1;
    /// For all ranks to come.
    std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
    /// For all ranks to come to one operation.
    std::chrono::milliseconds operation_timeout = std::chrono::seconds(60);
    Interruption interruption{};
};

/// Ranks of one host that meet without MPI. Rank 0 listens, the others connect to it and to nobody else; every
/// operation is one message of each rank to rank 0 and one answer. Only processes of the same user are let in.
///
/// A rank that never comes fails the start on all ranks that came (`Timeout`, naming the missing ranks); one that dies
/// or stays away later fails the operation on all others (`Aborted`, `Timeout`). After a failure the plane is of no
/// more use, and says the same again.
[[nodiscard]] Result<std::unique_ptr<ControlPlane>> open_socket_control_plane(const SocketControlPlaneOptions& options);

}  // namespace rueda::collectives
