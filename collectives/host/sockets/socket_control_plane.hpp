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
    /// The name of the socket for the rendezvous of the ranks. "@name" is in the abstract namespace, and disappears
    /// with the processes. "/path" is a path in a folder of mode 0700 that belongs to this user, and is unlinked as
    /// soon as all ranks have connected. "tcp:10.0.0.1:4711,…" are addresses of rank 0's host, for ranks on several
    /// hosts (base/network/endpoint_list.hpp).
    std::string rendezvous;
    /// The secret of the job, by which ranks recognise each other over TCP. Not used within a host.
    std::string secret{};
    int rank = 0;
    int size = 1;
    /// How long to wait for all ranks to connect.
    std::chrono::milliseconds start_timeout = std::chrono::seconds(60);
    /// How long an operation waits for all ranks to call it.
    std::chrono::milliseconds operation_timeout = std::chrono::seconds(60);
    Interruption interruption{};
};

/// A control plane for ranks that find each other without MPI. Rank 0 listens, and the other ranks connect to rank 0
/// only. In every operation, each rank sends one message to rank 0 and gets one answer. Within a host, only processes
/// of the same user are accepted. Between hosts, only processes that prove that they know the secret are accepted.
///
/// If a rank never connects, the start fails with `Timeout` on all ranks that have connected, and names the missing
/// ranks. If a rank dies during an operation, the operation fails with `Aborted` on all other ranks. If a rank does not
/// call an operation, the operation fails with `Timeout` on the other ranks. After a failure the control plane cannot
/// be used any more, and every call returns the same failure.
[[nodiscard]] Result<std::unique_ptr<ControlPlane>> open_socket_control_plane(const SocketControlPlaneOptions& options);

}  // namespace rueda::collectives
