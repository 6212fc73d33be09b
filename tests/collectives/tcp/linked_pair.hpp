// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "base/network/socket_address.hpp"
#include "collectives/tcp/leader_link.hpp"

namespace rueda::tests {

/// The two ends of a connection whose sides have proved the secret. Both ends are in this process.
struct LinkedPair {
    explicit LinkedPair(std::size_t most_bytes = 100'000) : LinkedPair(unix_sockets(), most_bytes) {}
    LinkedPair(std::array<int, 2> fds, std::size_t most_bytes) {
        base::MessageKeys keys;
        keys.sending.fill(1);
        keys.receiving.fill(2);
        const base::MessageKeys mirrored{keys.receiving, keys.sending};
        a = std::make_unique<collectives::LeaderLink>(base::ProvenConnection{base::UniqueFd(fds[0]), keys}, most_bytes);
        b = std::make_unique<collectives::LeaderLink>(base::ProvenConnection{base::UniqueFd(fds[1]), mirrored},
                                                      most_bytes);
    }
    static std::array<int, 2> unix_sockets() {
        std::array<int, 2> fds{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
        return fds;
    }
    /// Returns the two ends of a TCP connection over the loopback. Leaders have such connections.
    static std::array<int, 2> tcp_sockets() {
        base::SocketAddress address = *base::network_address("127.0.0.1", 0);
        const base::UniqueFd listener = base::listen_at(address);
        REQUIRE(::getsockname(listener.value(), address.raw(), &address.size) == 0);
        base::UniqueFd one = base::open_socket(address, 0);
        REQUIRE(::connect(one.value(), address.raw(), address.size) == 0);
        base::UniqueFd other(::accept4(listener.value(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        REQUIRE(other.is_open());
        REQUIRE(::fcntl(one.value(), F_SETFL, O_NONBLOCK) == 0);
        return {one.release(), other.release()};
    }

    std::unique_ptr<collectives::LeaderLink> a;
    std::unique_ptr<collectives::LeaderLink> b;
};

}  // namespace rueda::tests
