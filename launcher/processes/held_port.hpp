// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// A TCP port of this host that is reserved for the program of rank 0, which listens at it later (MASTER_PORT).
///
/// The port is reserved by a socket that is bound to the port, does not listen, and allows reuse of its address. As
/// long as this socket is open, the kernel does not assign the port to a process that asks for any free port, for
/// example another ruedarun. A program that asks for exactly this port and sets SO_REUSEADDR, as PyTorch's store does,
/// can bind it and listen at it at the same time (seen with Linux 6.18, for IPv4 and IPv6). Nothing prevents another
/// program from asking for exactly this port too.
struct HeldPort {
    base::UniqueFd socket;
    std::uint16_t port = 0;  ///< the number of the port; 0 if no port could be bound
};

/// Fails with ResourceExhausted if the system has no free port or no network.
[[nodiscard]] Result<HeldPort> hold_port();

}  // namespace rueda::launcher
