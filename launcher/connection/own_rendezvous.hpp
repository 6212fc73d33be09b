// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>

namespace rueda::launcher {

/// Returns the value of RUEDA_RENDEZVOUS for ranks of several hosts that meet at this port of this host: all addresses
/// of this host, each with the port. Addresses of the loopback come last, because they lead other hosts to themselves.
/// Returns an empty text if the port is 0, or if this host has no address.
[[nodiscard]] std::string rendezvous_of_this_host(std::uint16_t port);

}  // namespace rueda::launcher
