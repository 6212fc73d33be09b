// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the thread that wakes a rank when a message of another host has arrived.
#include "collectives/tcp/socket_watch.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <semaphore>
#include <thread>

namespace rueda::tests {
namespace {

using collectives::SocketWatch;

/// A watch of one socket, and the other end of this socket.
struct Watched {
    Watched() {
        std::array<int, 2> fds{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
        own.reset(fds[0]);
        other.reset(fds[1]);
        REQUIRE(watch->add(own.value()).is_ok());
        REQUIRE(watch->start([this] { rings.release(); }).is_ok());
    }
    ~Watched() { watch->stop(); }
    void write() const { REQUIRE(::write(other.value(), "x", 1) == 1); }
    void read() const {
        char byte = 0;
        REQUIRE(::read(own.value(), &byte, 1) == 1);
    }
    /// Waits until the watch has woken the rank. In this test, the watch then releases the semaphore `rings`.
    void expect_ring() { REQUIRE(rings.try_acquire_for(std::chrono::seconds(60))); }

    base::UniqueFd own;
    base::UniqueFd other;
    std::counting_semaphore<> rings{0};
    std::unique_ptr<SocketWatch> watch = SocketWatch::create().value();
};

TEST_CASE("an armed watch rings once for what arrives", "[threads]") {
    Watched socket;
    for (int round = 0; round < 100; ++round) {
        socket.watch->arm();
        socket.watch->arm();
        socket.write();
        socket.expect_ring();
        socket.read();
    }
    socket.watch->stop();  // after this call, the watch wakes the rank no more
    CHECK_FALSE(socket.rings.try_acquire());
}

TEST_CASE("a watch rings for bytes that arrived before it was armed", "[threads]") {
    Watched socket;
    socket.write();
    socket.watch->arm();
    socket.expect_ring();
    socket.watch->arm();  // the byte was not read
    socket.expect_ring();
}

TEST_CASE("a watch that is not armed does not ring", "[threads]") {
    Watched socket;
    socket.watch->arm();
    socket.watch->disarm();
    socket.write();
    SECTION("not at all") {
        // The test must be sure that no wake-up follows. It therefore stops the watch. A wake-up for another socket
        // would not be enough, because the watch gets the events of all its sockets from one queue.
        socket.watch->stop();
        CHECK_FALSE(socket.rings.try_acquire());
    }
    SECTION("but after it is armed again") {
        socket.watch->arm();
        socket.expect_ring();
    }
}

TEST_CASE("a watch that is to be armed soon rings soon", "[threads]") {
    Watched socket;
    for (int round = 0; round < 20; ++round) {
        socket.watch->arm_soon();
        if (round % 2 == 0) {
            socket.watch->disarm();  // an operation begins
            socket.watch->arm_soon();
        }
        socket.write();
        socket.expect_ring();
        socket.read();
    }
}

TEST_CASE("the end of a connection rings", "[threads]") {
    Watched socket;
    socket.watch->arm();
    socket.other.reset();
    socket.expect_ring();
    socket.watch->remove(socket.own.value());
    socket.watch->arm();
    socket.watch->stop();
    CHECK_FALSE(socket.rings.try_acquire());
}

TEST_CASE("a watch of the output rings when the buffer has room", "[threads]") {
    Watched socket;
    std::array<char, 4096> bytes{};
    while (::send(socket.own.value(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    socket.watch->watch_output(socket.own.value(), true);
    socket.watch->arm();
    CHECK_FALSE(socket.rings.try_acquire());
    while (::recv(socket.other.value(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    socket.expect_ring();
    socket.watch->watch_output(socket.own.value(), false);
    socket.watch->arm();
    socket.watch->stop();
    CHECK_FALSE(socket.rings.try_acquire());
}

}  // namespace
}  // namespace rueda::tests
