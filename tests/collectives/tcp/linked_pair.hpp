// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "collectives/tcp/leader_link.hpp"

namespace rueda::tests {

/// The two ends of a connection whose sides have proved the secret. Both ends are in this process.
struct LinkedPair {
    explicit LinkedPair(std::size_t most_bytes = 100'000) {
        std::array<int, 2> fds{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
        base::MessageKeys keys;
        keys.sending.fill(1);
        keys.receiving.fill(2);
        const base::MessageKeys mirrored{keys.receiving, keys.sending};
        a = std::make_unique<collectives::LeaderLink>(base::ProvenConnection{base::UniqueFd(fds[0]), keys}, most_bytes);
        b = std::make_unique<collectives::LeaderLink>(base::ProvenConnection{base::UniqueFd(fds[1]), mirrored},
                                                      most_bytes);
    }
    std::unique_ptr<collectives::LeaderLink> a;
    std::unique_ptr<collectives::LeaderLink> b;
};

}  // namespace rueda::tests
