// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how ruedarun treats connections of processes that it does not know yet.
#include "launcher/start/newcomers.hpp"

#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/connection/control_address.hpp"

namespace rueda::launcher {
namespace {

using namespace std::chrono_literals;

constexpr const char* kJobSecret = "0ff";

struct Hello {
    FrameLink link;
    Frame frame;
};

class Reception {
public:
    explicit Reception(NewcomerLimits limits = NewcomerLimits())
        : newcomers_(
              kJobSecret,
              [this](FrameLink link, const Frame& hello) {
                  hellos.push_back({std::move(link), hello});
              },
              limits) {}

    /// Makes a connection, passes one end of it to `newcomers_`, and returns the other end.
    base::UniqueFd connect() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
        newcomers_.accept(base::UniqueFd(ends[0]));
        return base::UniqueFd(ends[1]);
    }
    /// Runs one iteration of the event loop.
    void turn() {
        base::PollSet set;
        newcomers_.add_to(set);
        set.wake_at(std::chrono::steady_clock::now());
        set.wait_and_dispatch();
    }
    /// Returns a connection on which both sides have proved the secret, but no hello was sent.
    FrameLink proven() {
        base::ProvingSocket proving(connect(), base::HandshakeSide::connecting, kJobSecret, kHandshakePurpose,
                                    base::random_nonce().value());
        for (int i = 0; i < 10 && !proving.is_proven(); ++i) {
            REQUIRE(proving.advance().is_ok());
            turn();
        }
        REQUIRE(proving.is_proven());
        FrameLink link(proving.take());
        turn();
        return link;
    }
    Newcomers& newcomers() { return newcomers_; }

    std::vector<Hello> hellos;

private:
    Newcomers newcomers_;
};

bool is_closed(int fd) {
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

TEST_CASE("a process that proves the secret and sends its hello leaves the newcomers", "[unit]") {
    Reception reception;
    FrameLink link = reception.proven();
    CHECK(reception.newcomers().count() == 1);
    CHECK(reception.hellos.empty());
    link.send(FrameKind::hello, 3, "host");
    reception.turn();
    REQUIRE(reception.hellos.size() == 1);
    CHECK(reception.hellos[0].frame.value == 3);
    CHECK(reception.hellos[0].frame.payload == "host");
    CHECK(reception.newcomers().count() == 0);
    reception.hellos[0].link.send(FrameKind::welcome, 4, "welcome");
    const std::vector<Frame> frames = link.receive();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].payload == "welcome");
}

TEST_CASE("a newcomer that sends something else than one hello is closed", "[unit]") {
    Reception reception;
    FrameLink other = reception.proven();
    other.send(FrameKind::deliver, 9);
    FrameLink twice = reception.proven();
    twice.send(FrameKind::hello, 1, "host");
    twice.send(FrameKind::hello, 2, "host");
    FrameLink huge = reception.proven();
    huge.send(FrameKind::hello, 1, std::string(8193, 'x'));
    const base::UniqueFd stranger = reception.connect();
    const std::string request = "GET / HTTP/1.1\r\n\r\n";
    REQUIRE(::send(stranger.value(), request.data(), request.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(request.size()));
    reception.turn();
    CHECK(reception.hellos.empty());
    CHECK(reception.newcomers().count() == 0);
    CHECK(is_closed(stranger.value()));
    for (FrameLink* const link : {&other, &twice, &huge}) {
        CHECK(link->receive().empty());
        CHECK_FALSE(link->is_open());
    }
}

TEST_CASE("the oldest newcomer without a proof makes room for a new one", "[unit]") {
    Reception reception({.most = 3, .time = 10s});
    const FrameLink proven = reception.proven();
    const base::UniqueFd first = reception.connect();
    const base::UniqueFd second = reception.connect();
    CHECK(reception.newcomers().count() == 3);
    const base::UniqueFd third = reception.connect();
    CHECK(reception.newcomers().count() == 3);
    CHECK(is_closed(first.value()));
    CHECK_FALSE(is_closed(second.value()));
    FrameLink supervisor = reception.proven();  // the second connection is closed to make room for this connection
    CHECK(is_closed(second.value()));
    supervisor.send(FrameKind::hello, 1, "host");
    reception.turn();
    CHECK(reception.hellos.size() == 1);
    CHECK_FALSE(is_closed(third.value()));
    CHECK_FALSE(is_closed(proven.fd()));
}

TEST_CASE("if all newcomers have proved the secret, a new one is refused", "[unit]") {
    Reception reception({.most = 2, .time = 10s});
    const FrameLink one = reception.proven();
    const FrameLink other = reception.proven();
    const base::UniqueFd late = reception.connect();
    CHECK(is_closed(late.value()));
    CHECK_FALSE(is_closed(one.fd()));
    CHECK_FALSE(is_closed(other.fd()));
}

TEST_CASE("a newcomer has a limited time, before and after its proof", "[unit]") {
    Reception reception({.most = 10, .time = 10s});
    const base::UniqueFd silent = reception.connect();
    const FrameLink proven = reception.proven();
    const auto now = std::chrono::steady_clock::now();
    reception.newcomers().expire(now + 9s);
    CHECK(reception.newcomers().count() == 2);
    reception.newcomers().expire(now + 11s);
    CHECK(reception.newcomers().count() == 0);
    CHECK(is_closed(silent.value()));
    CHECK(is_closed(proven.fd()));
}

TEST_CASE("a process that sends its bytes slowly gets no more time", "[unit]") {
    Reception reception({.most = 10, .time = 10s});
    const base::UniqueFd slow = reception.connect();
    const auto now = std::chrono::steady_clock::now();
    base::Handshake handshake(base::HandshakeSide::connecting, kJobSecret, kHandshakePurpose,
                              base::random_nonce().value());
    const std::string opening = handshake.take_output();
    for (std::size_t i = 0; i + 1 < opening.size(); ++i) {
        REQUIRE(::send(slow.value(), &opening[i], 1, MSG_NOSIGNAL) == 1);
        reception.turn();
        reception.newcomers().expire(now + 9s);
    }
    CHECK(reception.newcomers().count() == 1);
    reception.newcomers().expire(now + 11s);
    CHECK(reception.newcomers().count() == 0);
    CHECK(is_closed(slow.value()));
}

TEST_CASE("a supervisor is taken while other processes are silent", "[unit]") {
    Reception reception;
    std::vector<base::UniqueFd> silent;
    for (int i = 0; i < 100; ++i) {
        silent.push_back(reception.connect());
    }
    FrameLink supervisor = reception.proven();
    supervisor.send(FrameKind::hello, 2, "host");
    reception.turn();  // one turn of the loop is enough, so the supervisor does not wait for the silent processes
    REQUIRE(reception.hellos.size() == 1);
    CHECK(reception.hellos.front().frame.value == 2);
    CHECK(reception.newcomers().count() == silent.size());
}

TEST_CASE("what a supervisor has sent is worth nothing to a process that repeats it", "[unit]") {
    Reception reception;
    // Sends what a supervisor sends. Another host between the supervisor and ruedarun could read and repeat these
    // bytes.
    const base::UniqueFd first = reception.connect();
    base::Handshake supervisor(base::HandshakeSide::connecting, kJobSecret, kHandshakePurpose,
                               base::random_nonce().value());
    const auto send = [&](const base::UniqueFd& socket, const std::string& bytes) {
        REQUIRE(::send(socket.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
        reception.turn();
    };
    std::string answer(base::Handshake::kAnswerBytes, '\0');
    std::string recorded = supervisor.take_output();
    send(first, recorded);
    REQUIRE(::recv(first.value(), answer.data(), answer.size(), MSG_DONTWAIT) == static_cast<ssize_t>(answer.size()));
    REQUIRE(supervisor.receive(answer).is_ok());
    const std::string proof = supervisor.take_output();
    recorded += proof;
    send(first, proof);
    CHECK(reception.newcomers().count() == 1);  // the supervisor has proved the secret
    const base::UniqueFd repeating = reception.connect();
    send(repeating, recorded);
    CHECK(reception.newcomers().count() == 1);
    answer.resize(1000);
    CHECK(::recv(repeating.value(), answer.data(), answer.size(), MSG_DONTWAIT) ==
          static_cast<ssize_t>(base::Handshake::kAnswerBytes));
    CHECK(is_closed(repeating.value()));
}

TEST_CASE("a frame that announces a huge length closes its link at once", "[unit]") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const base::UniqueFd other(ends[1]);
    FrameLink link(base::ProvenConnection{base::UniqueFd(ends[0]), {}});
    const std::array<std::uint32_t, 4> header = {0x72756502, 1, 0, 0xFFFFFFFF};
    REQUIRE(::send(other.value(), header.data(), sizeof header, MSG_NOSIGNAL) == sizeof header);
    CHECK(link.receive(8192).empty());
    CHECK_FALSE(link.is_open());
}

}  // namespace
}  // namespace rueda::launcher
