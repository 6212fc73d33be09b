// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/descriptor_message.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

namespace rueda::base {
namespace {

struct Pair {
    explicit Pair(int type = SOCK_SEQPACKET) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) == 0);
        near.reset(ends[0]);
        far.reset(ends[1]);
    }
    UniqueFd near;
    UniqueFd far;
};

struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
        out.reset(ends[0]);
        in.reset(ends[1]);
    }
    UniqueFd out;
    UniqueFd in;
};

ssize_t send(const Pair& pair, std::string text, std::span<const int> fds) {
    iovec part{text.data(), text.size()};
    return send_with_descriptors(pair.near.value(), {&part, 1}, fds);
}

/// Receives at most eight bytes. Returns the bytes that arrived.
std::string receive(const Pair& pair, Attachments& attachments) {
    std::array<char, 8> room{};
    std::array<iovec, 2> parts{{{room.data(), 3}, {room.data() + 3, 5}}};
    const ssize_t bytes = receive_with_descriptors(pair.far.value(), parts, attachments);
    REQUIRE(bytes >= 0);
    return {room.data(), static_cast<std::size_t>(bytes)};
}

TEST_CASE("files travel with a message, are other numbers for the same files, and are closed on exec") {
    const int type = GENERATE(SOCK_SEQPACKET, SOCK_STREAM);
    const Pair pair(type);
    const Pipe pipe;
    const std::array<int, 2> fds{pipe.out.value(), pipe.in.value()};
    REQUIRE(send(pair, "with two", fds) == 8);
    Attachments got;
    CHECK(receive(pair, got) == "with two");
    CHECK((got.flags & (MSG_TRUNC | MSG_CTRUNC)) == 0);
    REQUIRE(got.fds.size() == 2);
    for (const UniqueFd& fd : got.fds) {
        CHECK(fd.value() != fds[0]);
        CHECK(fd.value() != fds[1]);
        CHECK(::fcntl(fd.value(), F_GETFD) == FD_CLOEXEC);
    }
    REQUIRE(::write(got.fds[1].value(), "x", 1) == 1);
    char read = 0;
    REQUIRE(::read(pipe.out.value(), &read, 1) == 1);
    CHECK(read == 'x');
}

TEST_CASE("a message without files brings none, not even those of the one before") {
    const Pair pair;
    const int fd = pair.near.value();
    REQUIRE(send(pair, "one", {&fd, 1}) == 3);
    REQUIRE(send(pair, "none", {}) == 4);
    Attachments got;
    CHECK(receive(pair, got) == "one");
    CHECK(got.fds.size() == 1);
    CHECK(receive(pair, got) == "none");
    CHECK(got.fds.empty());
}

TEST_CASE("a message that is too long says so") {
    const Pair pair;
    REQUIRE(send(pair, "longer than eight", {}) == 17);
    Attachments got;
    CHECK(receive(pair, got) == "longer t");
    CHECK((got.flags & MSG_TRUNC) != 0);
}

TEST_CASE("more files than fit are refused, and nothing is sent") {
    const Pair pair;
    const std::array<int, kMostDescriptors + 1> fds{pair.near.value(), pair.near.value(), pair.near.value()};
    CHECK(send(pair, "three", fds) == -1);
    CHECK(errno == EINVAL);
    std::array<char, 1> room{};
    iovec part{room.data(), room.size()};
    Attachments got;
    CHECK(receive_with_descriptors(pair.far.value(), {&part, 1}, got) == -1);
    CHECK(errno == EAGAIN);
}

TEST_CASE("sending to a process that has ended gives an error and no signal") {
    Pair pair;
    pair.far.reset();
    CHECK(send(pair, "too late", {}) == -1);
    CHECK(errno == EPIPE);
}

}  // namespace
}  // namespace rueda::base
