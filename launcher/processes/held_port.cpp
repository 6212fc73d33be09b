// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/held_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace rueda::launcher {

namespace {

/// Reserves a port at the wildcard address of the address family. Port 0 in the result means that no port could be
/// reserved.
HeldPort hold_port_of(int family) {
    HeldPort held;
    held.socket.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    const int off = 0;
    if (!held.socket.is_open() || ::setsockopt(held.socket.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
        return held;
    }
    sockaddr_in6 six{};
    sockaddr_in four{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_any;
    four.sin_family = AF_INET;
    if (family == AF_INET6) {
        // Turns IPV6_V6ONLY off, so that the IPv6 socket also reserves the port for IPv4.
        ::setsockopt(held.socket.value(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    sockaddr* const address =
        family == AF_INET6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
    socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
    if (::bind(held.socket.value(), address, size) == 0 && ::getsockname(held.socket.value(), address, &size) == 0) {
        held.port = ntohs(family == AF_INET6 ? six.sin6_port : four.sin_port);
    }
    return held;
}

}  // namespace

Result<HeldPort> hold_port() {
    HeldPort held = hold_port_of(AF_INET6);
    if (held.port == 0) {
        held = hold_port_of(AF_INET);
    }
    if (held.port == 0) {
        return system_failure(ErrorCode::resource_exhausted, "holding a port for rank 0: bind");
    }
    return held;
}

}  // namespace rueda::launcher
