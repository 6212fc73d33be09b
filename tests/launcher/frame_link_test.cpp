// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/supervisor/frame_link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace rueda::launcher {
namespace {

struct Pair {
    FrameLink link;
    base::UniqueFd other;
};

Pair connected() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    return {FrameLink(base::UniqueFd(ends[0])), base::UniqueFd(ends[1])};
}

void write_bytes(const base::UniqueFd& fd, const std::string& bytes) {
    REQUIRE(::write(fd.value(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

/// Returns the bytes of a frame: four 32-bit numbers in little-endian order, and the payload.
std::string frame(std::uint32_t kind, std::uint32_t value, const std::string& payload,
                  std::uint32_t magic = 0x72756502) {
    std::string bytes;
    for (const std::uint32_t number : {magic, kind, value, static_cast<std::uint32_t>(payload.size())}) {
        for (unsigned shift = 0; shift < 32; shift += 8) {
            bytes += static_cast<char>((number >> shift) & 0xFFU);
        }
    }
    return bytes + payload;
}

TEST_CASE("frames arrive whole, in whatever pieces their bytes come", "[unit]") {
    Pair pair = connected();
    const std::string bytes = frame(9, 1, "hello") + frame(3, 4711, "") + frame(9, 2, std::string(3, '\0'));
    std::vector<Frame> frames;
    for (const char byte : bytes) {
        write_bytes(pair.other, std::string(1, byte));
        for (Frame& one : pair.link.receive()) {
            frames.push_back(std::move(one));
        }
    }
    REQUIRE(frames.size() == 3);
    CHECK(frames[0].kind == FrameKind::output);
    CHECK(frames[0].value == 1);
    CHECK(frames[0].payload == "hello");
    CHECK(frames[1].kind == FrameKind::started);
    CHECK(frames[1].value == 4711);
    CHECK(frames[2].payload == std::string(3, '\0'));
    CHECK(pair.link.is_open());
    pair.other.reset();
    CHECK(pair.link.receive().empty());
    CHECK_FALSE(pair.link.is_open());
}

TEST_CASE("frames that were sent before the connection ended arrive", "[unit]") {
    Pair pair = connected();
    write_bytes(pair.other, frame(5, 9, "") + frame(9, 1, "cut").substr(0, 18));
    pair.other.reset();
    const std::vector<Frame> frames = pair.link.receive();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].value == 9);
    CHECK(pair.link.receive().empty());
    CHECK_FALSE(pair.link.is_open());
}

TEST_CASE("a send that fails does not hide frames that have arrived", "[unit]") {
    Pair pair = connected();
    write_bytes(pair.other, frame(5, 9, "by_launcher\n"));
    pair.other.reset();
    pair.link.send(FrameKind::deliver, 15);
    pair.link.send(FrameKind::leave, 0);
    CHECK_FALSE(pair.link.has_queue());
    const std::vector<Frame> frames = pair.link.receive();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].payload == "by_launcher\n");
    CHECK(pair.link.is_open());
    CHECK(pair.link.receive().empty());
    CHECK_FALSE(pair.link.is_open());
}

TEST_CASE("bytes that are not a frame, and frames that are too long, end the connection", "[unit]") {
    for (const std::string& bytes :
         {std::string("GET / HTTP/1.0\r\n\r\n"), frame(1, 0, "", 0x01657572), frame(1, 0, std::string(513, 'x'))}) {
        Pair pair = connected();
        write_bytes(pair.other, bytes);
        CHECK(pair.link.receive(512).empty());
        CHECK_FALSE(pair.link.is_open());
    }
    Pair pair = connected();
    write_bytes(pair.other, frame(1, 0, std::string(512, 'x')));
    CHECK(pair.link.receive(512).size() == 1);
    CHECK(pair.link.is_open());
}

TEST_CASE("sending does not block, and loses no frame", "[unit]") {
    Pair sender = connected();
    FrameLink receiver(std::move(sender.other));
    const std::string text(3'000'000, 'a');
    sender.link.send(FrameKind::output, 1, text);
    sender.link.send(FrameKind::ended, 7);
    CHECK(sender.link.has_queue());
    CHECK(sender.link.is_congested());
    std::string arrived;
    int ended = 0;
    while (ended == 0) {
        sender.link.flush();
        for (const Frame& one : receiver.receive()) {
            arrived += one.payload;
            ended = one.kind == FrameKind::ended ? one.value : ended;
        }
        REQUIRE(receiver.is_open());
    }
    CHECK(ended == 7);
    CHECK(arrived == text);
    CHECK_FALSE(sender.link.has_queue());
}

TEST_CASE("descriptors travel over a Unix socket, and are closed if they are not taken", "[unit]") {
    Pair pair = connected();
    FrameLink other(std::move(pair.other));
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const base::UniqueFd read_end(ends[0]);
    base::UniqueFd write_end(ends[1]);
    REQUIRE(pair.link.send_descriptors(std::array<int, 1>{write_end.value()}).is_ok());
    pair.link.send(FrameKind::welcome, 2, "A=1");
    write_end.reset();
    std::vector<Frame> frames;
    while (frames.size() < 2) {
        for (Frame& one : other.receive()) {
            frames.push_back(std::move(one));
        }
        REQUIRE(other.is_open());
    }
    CHECK(frames[0].kind == FrameKind::descriptors);
    CHECK(frames[1].payload == "A=1");
    std::vector<base::UniqueFd> arrived = other.take_descriptors();
    REQUIRE(arrived.size() == 1);
    CHECK((::fcntl(arrived.front().value(), F_GETFD) & FD_CLOEXEC) != 0);
    write_bytes(arrived.front(), "hello");
    std::array<char, 8> buffer{};
    CHECK(::read(read_end.value(), buffer.data(), buffer.size()) == 5);
    arrived.clear();
    CHECK(::read(read_end.value(), buffer.data(), buffer.size()) == 0);
    CHECK(other.take_descriptors().empty());
}

/// Returns a TCP connection. No process reads at its other end.
Pair connected_over_tcp() {
    const base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener.value(), generic, bytes) == 0);
    REQUIRE(::listen(listener.value(), 1) == 0);
    REQUIRE(::getsockname(listener.value(), generic, &bytes) == 0);
    base::UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(own.value(), generic, bytes) == 0);
    base::UniqueFd other(::accept4(listener.value(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(other.is_open());
    REQUIRE(::fcntl(own.value(), F_SETFL, O_NONBLOCK) == 0);
    return {FrameLink(std::move(own)), std::move(other)};
}

/// Makes the kernel drop every packet that arrives for the socket. The socket then behaves as if its host were cut off.
void cut_off(const base::UniqueFd& socket) {
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    REQUIRE(::setsockopt(socket.value(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}

TEST_CASE("a host is lost if its kernel does not answer, but not if only its process sends nothing", "[unit]") {
    Pair quiet = connected_over_tcp();
    Pair lost = connected_over_tcp();
    cut_off(lost.other);
    CHECK_FALSE(lost.link.close_when_silent());  // the host has not been silent long enough to count as lost
    // No process sends anything in this time. But the kernel answers the probes on the connection `quiet`, one each
    // second.
    std::this_thread::sleep_for(FrameLink::kAnswerTime + std::chrono::milliseconds(300));
    CHECK_FALSE(quiet.link.close_when_silent());
    CHECK(quiet.link.receive().empty());
    CHECK(quiet.link.is_open());
    CHECK(lost.link.close_when_silent());
    CHECK(lost.link.receive().empty());
    CHECK_FALSE(lost.link.is_open());
    CHECK_FALSE(lost.link.close_when_silent());  // nothing is left to close
}

TEST_CASE("a connection within the host is never silent", "[unit]") {
    Pair pair = connected();
    CHECK_FALSE(pair.link.close_when_silent());
}

}  // namespace
}  // namespace rueda::launcher
