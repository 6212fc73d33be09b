// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// A TCP port of this host that is reserved for rank 0. The program of rank 0 listens at it later: at MASTER_PORT or,
/// in a job without MPI on several hosts, at the port in RUEDA_RENDEZVOUS.
///
/// A socket reserves the port: it is bound to the port, does not listen, and allows reuse of its address. While this
/// socket is open, the kernel does not give the port to a process that asks for an arbitrary free port, such as another
/// ruedarun. The program of rank 0 can still bind exactly this port and listen, if it sets SO_REUSEADDR as PyTorch's
/// store does (seen with Linux 6.18, for IPv4 and IPv6). Nothing prevents another program from doing the same.
struct HeldPort {
    base::UniqueFd socket;
    std::uint16_t port = 0;  ///< the reserved port; 0 if no port could be reserved
};

/// Reserves a port. Fails with ResourceExhausted if the system has no free port or no network.
[[nodiscard]] Result<HeldPort> hold_port();

}  // namespace rueda::launcher
