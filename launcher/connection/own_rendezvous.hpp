// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>

namespace rueda::launcher {

/// Returns the value of RUEDA_RENDEZVOUS if the ranks of several hosts are to connect at port `port` of this host. The
/// value has all addresses of this host, each with the port. Loopback addresses come last, because another host that
/// tries them reaches only itself. Returns an empty text if the port is 0, or if this host has no address.
[[nodiscard]] std::string rendezvous_of_this_host(std::uint16_t port);

}  // namespace rueda::launcher
