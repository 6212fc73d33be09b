// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// Where ruedarun listens for the supervisors of a job, and the secret by which it recognises them.
struct ControlAddress {
    std::string secret;
    /// One abstract Unix socket if all ranks are on this host ("@ruedarun-0ff"), else addresses with ports
    /// ("10.0.0.1:4711", "[fd00::1]:4711").
    std::vector<std::string> endpoints;
};

/// The form of the variable RUEDARUN_CONTROL: "secret@endpoint,endpoint".
[[nodiscard]] std::string format_control_address(const ControlAddress& address);
[[nodiscard]] Result<ControlAddress> parse_control_address(std::string_view text);

struct ControlListener {
    std::vector<base::UniqueFd> sockets;
    ControlAddress address;
};

/// Listens at a new Unix socket, which no process of another host sees.
[[nodiscard]] Result<ControlListener> listen_on_this_host();
/// Listens at every address of the named interfaces, or of all interfaces that lead out of this host. If there are
/// none, listens at the loopback.
[[nodiscard]] Result<ControlListener> listen_on_network(const std::vector<std::string>& interfaces);

/// Connects a supervisor to its ruedarun.
[[nodiscard]] Result<base::UniqueFd> connect_to_ruedarun(const ControlAddress& address);

/// False if the process at the other end of a Unix socket belongs to another user (SO_PEERCRED). A TCP connection does
/// not tell the user; there only the secret counts.
[[nodiscard]] bool may_be_of_this_job(int socket);

/// The numeric addresses of both ends of a TCP connection; empty if it has ended.
struct ConnectionEnds {
    std::string own;
    std::string peer;
};
[[nodiscard]] ConnectionEnds ends_of_connection(int socket);

/// Takes a time that does not depend on where the texts differ.
[[nodiscard]] bool is_same_secret(std::string_view left, std::string_view right);

}  // namespace rueda::launcher
