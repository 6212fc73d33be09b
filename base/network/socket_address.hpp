// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"

namespace rueda::base {

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;

    [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
    [[nodiscard]] sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Parses a numeric address with a port. Names are refused, because ruedarun writes only numeric addresses.
[[nodiscard]] std::optional<SocketAddress> network_address(const std::string& host, std::uint16_t port);
/// Makes the address of an abstract Unix socket from "@name". Such a socket has no file that could be left behind.
[[nodiscard]] std::optional<SocketAddress> abstract_address(const std::string& name);
/// Parses "@ruedarun-0ff", "10.0.0.1:4711" or "[fd00::1]:4711".
[[nodiscard]] std::optional<SocketAddress> parse_endpoint(const std::string& text);

/// Opens a stream socket of the address's family. `flags` are flags of socket(2) such as SOCK_NONBLOCK.
[[nodiscard]] UniqueFd open_socket(const SocketAddress& address, int flags);
/// Returns a listening socket. If the system refuses, the result holds no socket, and errno gives the reason.
[[nodiscard]] UniqueFd listen_at(const SocketAddress& address);

/// Returns the port of a bound socket; 0 if it has none.
[[nodiscard]] std::uint16_t port_of(int fd);
/// Returns the numeric address without port, for example "10.0.0.1" or "fd00::1".
[[nodiscard]] std::string numeric_text(const SocketAddress& address);

}  // namespace rueda::base
