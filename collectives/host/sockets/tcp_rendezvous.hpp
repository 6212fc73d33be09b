// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "collectives/host/sockets/frame_stream.hpp"
#include "collectives/host/sockets/socket_control_plane.hpp"

namespace rueda::collectives {

/// Identifies the purpose of a handshake between rank 0 and another rank. base::Handshake gets this text.
inline constexpr std::string_view kRendezvousPurpose = "rueda rendezvous";

/// Runs on rank 0: listens at all addresses of a rendezvous such as "tcp:10.0.0.1:4711,[fd00::1]:4711". Leaves out
/// addresses that this host does not have. Fails if no address is left, or if another program uses the port.
[[nodiscard]] Result<std::vector<base::UniqueFd>> listen_at_rendezvous(const std::string& rendezvous);

/// Runs on every other rank: connects to rank 0, and proves that this rank knows the secret. Tries all addresses at the
/// same time. Repeats this until rank 0 listens or the time is over.
[[nodiscard]] Result<FrameSocket> connect_to_rendezvous(const SocketControlPlaneOptions& options);

}  // namespace rueda::collectives
