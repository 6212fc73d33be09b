// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// The addresses at which ruedarun listens for the supervisors (parents of ranks) of a job, and the secret by
/// which both sides recognise each other. The secret is never sent over these connections.
struct ControlAddress {
    std::string secret;
    /// If all ranks are on this host: one abstract Unix socket, for example "@ruedarun-0ff". Otherwise: numeric
    /// addresses with ports, for example "10.0.0.1:4711" or "[fd00::1]:4711".
    std::vector<std::string> endpoints;
};

/// Returns the value of the variable RUEDARUN_CONTROL: "secret@endpoint,endpoint".
[[nodiscard]] std::string format_control_address(const ControlAddress& address);
[[nodiscard]] Result<ControlAddress> parse_control_address(std::string_view text);

/// This text is part of each proof of the secret. Proofs for another purpose contain another text, so they are not
/// accepted here, even if the secret is the same.
inline constexpr std::string_view kHandshakePurpose = "ruedarun and supervisor";

struct ControlListener {
    std::vector<base::UniqueFd> sockets;
    ControlAddress address;
};

/// Listens at a new abstract Unix socket, which other hosts cannot reach.
[[nodiscard]] Result<ControlListener> listen_on_this_host();
/// Listens at every address of the named interfaces. If no interface is named, listens at all interfaces except the
/// loopback. If these have no address, listens at the loopback.
[[nodiscard]] Result<ControlListener> listen_on_network(const std::vector<std::string>& interfaces);

/// The numeric addresses of both ends of a TCP connection; empty if the connection has ended.
struct ConnectionEnds {
    std::string own;
    std::string peer;
};
[[nodiscard]] ConnectionEnds ends_of_connection(int socket);

}  // namespace rueda::launcher
