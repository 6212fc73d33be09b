// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// The addresses at which ruedarun listens for the supervisors of a job, and the secret by which it recognises them.
struct ControlAddress {
    std::string secret;
    /// If all ranks are on this host, this is one abstract Unix socket ("@ruedarun-0ff"). Otherwise these are addresses
    /// with ports ("10.0.0.1:4711", "[fd00::1]:4711").
    std::vector<std::string> endpoints;
};

/// Formats the address as the value of the variable RUEDARUN_CONTROL: "secret@endpoint,endpoint".
[[nodiscard]] std::string format_control_address(const ControlAddress& address);
[[nodiscard]] Result<ControlAddress> parse_control_address(std::string_view text);

struct ControlListener {
    std::vector<base::UniqueFd> sockets;
    ControlAddress address;
};

/// Listens at a new Unix socket. Processes on other hosts cannot reach it.
[[nodiscard]] Result<ControlListener> listen_on_this_host();
/// Listens at every address of the named interfaces, or of all interfaces except the loopback. If there are no such
/// addresses, listens at the loopback.
[[nodiscard]] Result<ControlListener> listen_on_network(const std::vector<std::string>& interfaces);

/// Connects a supervisor to its ruedarun.
[[nodiscard]] Result<base::UniqueFd> connect_to_ruedarun(const ControlAddress& address);

/// False if the process at the other end of a Unix socket belongs to another user (SO_PEERCRED). For a TCP connection
/// the user is not known; there only the secret is checked.
[[nodiscard]] bool may_be_of_this_job(int socket);

/// The numeric addresses of both ends of a TCP connection; empty if it has ended.
struct ConnectionEnds {
    std::string own;
    std::string peer;
};
[[nodiscard]] ConnectionEnds ends_of_connection(int socket);

/// Compares two texts. The time that it takes does not depend on the position at which the texts differ.
[[nodiscard]] bool is_same_secret(std::string_view left, std::string_view right);

}  // namespace rueda::launcher
