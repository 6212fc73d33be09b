// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the rendezvous of ranks over TCP, as ranks on several hosts use it. All processes are on this host, at the
// loopback.
#include "collectives/host/sockets/tcp_rendezvous.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/network/address_race.hpp"
#include "base/network/endpoint_list.hpp"
#include "base/network/socket_address.hpp"
#include "collectives/host/sockets/socket_messages.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"

namespace rueda::collectives {
namespace {

using namespace std::chrono_literals;
using tests::outcome;
using tests::run_processes;

/// A port that is reserved as ruedarun's supervisors reserve ports: a socket is bound to the port, but does not listen.
struct ReservedPort {
    ReservedPort() {
        const int on = 1;
        sockaddr_in address{};
        address.sin_family = AF_INET;
        socklen_t size = sizeof address;
        socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        REQUIRE(::setsockopt(socket.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
        REQUIRE(::bind(socket.value(), reinterpret_cast<sockaddr*>(&address), size) == 0);
        REQUIRE(::getsockname(socket.value(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
        port = ntohs(address.sin_port);
    }
    [[nodiscard]] std::string endpoint() const { return base::endpoint_text("127.0.0.1", false, port); }

    base::UniqueFd socket;
    unsigned port = 0;
};

SocketControlPlaneOptions tcp_options(const std::string& rendezvous, int rank, int size,
                                      std::chrono::milliseconds patience = 30s) {
    SocketControlPlaneOptions options;
    options.rendezvous = rendezvous;
    options.secret = "a secret";
    options.rank = rank;
    options.size = size;
    options.start_timeout = patience;
    options.operation_timeout = patience;
    return options;
}

template <class Body>
std::string with_tcp_plane(const SocketControlPlaneOptions& options, Body&& body) {
    auto plane = open_socket_control_plane(options);
    if (!plane.is_ok()) {
        return outcome(plane.status());
    }
    std::string result = body(*plane.value());
    plane.value()->close(false);
    return result;
}

std::string barrier_over_tcp(ControlPlane& plane) { return outcome(plane.barrier()); }

TEST_CASE("lists of addresses", "[unit]") {
    using Endpoints = std::vector<std::string>;
    CHECK(base::tcp_endpoints("tcp:10.0.0.1:4711") == Endpoints{"10.0.0.1:4711"});
    CHECK(base::tcp_endpoints("tcp:10.0.0.1:4711,[fd00::1]:4711") == Endpoints{"10.0.0.1:4711", "[fd00::1]:4711"});
    CHECK(base::tcp_rendezvous(Endpoints{"10.0.0.1:4711", "[fd00::1]:4711"}) == "tcp:10.0.0.1:4711,[fd00::1]:4711");
    CHECK(base::endpoint_text("fd00::1", true, 4711) == "[fd00::1]:4711");
    for (const char* wrong : {"", "@name", "/path", "tcp:", "tcp:host:4711", "tcp:10.0.0.1", "tcp:10.0.0.1:4711,",
                              "tcp:,10.0.0.1:4711", "tcp:10.0.0.1:99999", "tcp:@rueda"}) {
        CAPTURE(wrong);
        CHECK_FALSE(base::tcp_endpoints(wrong));
    }
    std::string many = "tcp:10.0.0.1:1";
    for (std::size_t count = 1; count < base::kMostEndpoints; ++count) {
        many += ",10.0.0.1:1";
    }
    CHECK(base::tcp_endpoints(many)->size() == base::kMostEndpoints);
    CHECK_FALSE(base::tcp_endpoints(many + ",10.0.0.1:1"));
}

TEST_CASE("ranks meet over TCP, several times at the same port", "[processes]") {
    const ReservedPort port;
    // No process listens at the first address. The last address is reserved for documentation (RFC 5737), so no host
    // has it.
    const std::vector<std::string> endpoints = {"127.0.0.1:1", port.endpoint(),
                                                base::endpoint_text("192.0.2.1", false, port.port)};
    const std::string rendezvous = base::tcp_rendezvous(endpoints);
    for (int size = 1; size <= 4; ++size) {
        CAPTURE(size);
        const auto ends = run_processes(size, [&](int rank) {
            std::string result = "ok";
            for (int round = 0; round < 3 && result == "ok"; ++round) {
                // In each round a different rank is late.
                std::this_thread::sleep_for(std::chrono::milliseconds(((rank + round) % size) * 20));
                result = with_tcp_plane(tcp_options(rendezvous, rank, size), [&](ControlPlane& plane) {
                    return plane.reaches_other_hosts() ? tests::exercise(plane, rank, size, 300'000)
                                                       : "does not reach other hosts";
                });
            }
            return result;
        });
        CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(size), "ok"));
    }
}

TEST_CASE("a plane over TCP knows the secret of the job, and a plane of one host has none", "[unit]") {
    const ReservedPort port;
    SocketControlPlaneOptions options =
        tcp_options(base::tcp_rendezvous(std::vector<std::string>{port.endpoint()}), 0, 1);
    CHECK(open_socket_control_plane(options).value()->shared_secret() == "a secret");
    options.rendezvous = fmt::format("@rueda-secret-test-{}", ::getpid());
    CHECK(open_socket_control_plane(options).value()->shared_secret().empty());
}

TEST_CASE("a rank with another secret is not let in", "[processes]") {
    const ReservedPort port;
    const std::string rendezvous = base::tcp_rendezvous(std::vector<std::string>{port.endpoint()});
    const auto ends = run_processes(3, [&](int rank) {
        SocketControlPlaneOptions options = tcp_options(rendezvous, rank, 3, 1s);
        options.secret = rank == 2 ? "another secret" : options.secret;
        return with_tcp_plane(options, barrier_over_tcp);
    });
    // On a busy machine, rank 1 may be late too.
    CHECK_THAT(ends[0], Catch::StartsWith("Timeout: rank ") &&
                            Catch::Contains(fmt::format("2 did not come to '{}' within 1 s", rendezvous)));
    CHECK_THAT(ends[1], Catch::StartsWith("Timeout: rank "));
    CHECK_THAT(ends[2],
               Catch::StartsWith(fmt::format("Timeout: rank 0 was not reached at '{}' within 1 s", rendezvous)));
    CHECK(ends[2].find("another secret") == std::string::npos);
}

TEST_CASE("a message that was changed on its way is noticed", "[unit]") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    base::MessageKeys keys;
    keys.sending.fill(1);
    keys.receiving.fill(1);
    FrameSocket sender(base::ProvenConnection{base::UniqueFd(ends[0]), keys});
    FrameSocket receiver(base::ProvenConnection{base::UniqueFd(ends[1]), keys});
    const Bytes body = tests::pattern(100, 1);
    const auto deadline = deadline_in(10s);
    REQUIRE(send_frame(sender, {FrameKind::allgather, 0, 1, 0}, body, deadline, false).is_ok());
    FrameReceiver first;
    const auto complete = first.advance(receiver);
    REQUIRE(complete.is_ok());
    REQUIRE(complete.value());
    CHECK(first.take().body == body);

    // One message is lost on its way. The next message therefore arrives as the second one, but has the authentication
    // code of the third.
    static_cast<void>(sender.code_to_send({}, body));
    REQUIRE(send_frame(sender, {FrameKind::allgather, 0, 1, 0}, body, deadline, false).is_ok());
    FrameReceiver second;
    CHECK(outcome(second.advance(receiver).status()) == "Aborted: has sent a message that was changed on its way");
}

/// Makes 100 connections of a process that does not know the secret, and returns them. On each connection, `text` is
/// sent, which may be empty.
std::vector<base::UniqueFd> connect_strangers(unsigned port, std::string_view text) {
    std::vector<base::UniqueFd> strangers;
    const auto where = base::network_address("127.0.0.1", static_cast<std::uint16_t>(port));
    while (strangers.size() < 100) {
        base::UniqueFd socket = base::open_socket(*where, 0);
        if (::connect(socket.value(), where->raw(), where->size) == 0) {
            static_cast<void>(::send(socket.value(), text.data(), text.size(), MSG_NOSIGNAL));
            strangers.push_back(std::move(socket));
        } else {
            std::this_thread::sleep_for(1ms);  // rank 0 does not listen yet
        }
    }
    return strangers;
}

TEST_CASE("a process without the secret cannot disturb the rendezvous", "[processes]") {
    const ReservedPort port;
    const std::string rendezvous = base::tcp_rendezvous(std::vector<std::string>{port.endpoint()});
    const auto ends = run_processes(2, [&](int rank) -> std::string {
        const auto strangers = rank == 1 ? connect_strangers(port.port, "not rueda") : std::vector<base::UniqueFd>();
        return with_tcp_plane(tcp_options(rendezvous, rank, 2), barrier_over_tcp);
    });
    CHECK(ends == std::vector<std::string>(2, "ok"));
}

TEST_CASE("a process without the secret cannot use up the descriptors of rank 0", "[processes]") {
    const ReservedPort port;
    const std::string rendezvous = base::tcp_rendezvous(std::vector<std::string>{port.endpoint()});
    const auto ends = run_processes(2, [&](int rank) -> std::string {
        std::vector<base::UniqueFd> strangers;
        if (rank == 1) {
            strangers = connect_strangers(port.port, "");
        } else {
            // A new descriptor gets the lowest free number. With this limit, rank 0 can therefore open about 16 more
            // descriptors.
            const base::UniqueFd next(::dup(port.socket.value()));
            const rlimit few{static_cast<rlim_t>(next.value()) + 16, static_cast<rlim_t>(next.value()) + 16};
            if (::setrlimit(RLIMIT_NOFILE, &few) != 0) {
                return "setrlimit failed";
            }
        }
        return with_tcp_plane(tcp_options(rendezvous, rank, 2), barrier_over_tcp);
    });
    CHECK(ends == std::vector<std::string>(2, "ok"));
}

TEST_CASE("rank 0 fails at once if another program listens at one of its addresses", "[unit]") {
    const ReservedPort port;
    const auto taken = base::network_address("127.0.0.1", static_cast<std::uint16_t>(port.port));
    const base::UniqueFd other = base::open_socket(*taken, 0);
    const int on = 1;
    REQUIRE(::setsockopt(other.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    REQUIRE(::bind(other.value(), taken->raw(), taken->size) == 0);
    REQUIRE(::listen(other.value(), 1) == 0);
    const std::vector<std::string> endpoints = {base::endpoint_text("127.0.0.2", false, port.port), port.endpoint()};
    const SocketControlPlaneOptions options = tcp_options(base::tcp_rendezvous(endpoints), 0, 2);
    CHECK(outcome(open_socket_control_plane(options).status()) ==
          fmt::format("Unsupported: rank 0 cannot listen at {}, because another program uses this port: check "
                      "RUEDA_RENDEZVOUS, or start the job again",
                      port.endpoint()));
}

TEST_CASE("an address may come twice in a rendezvous", "[unit]") {
    const ReservedPort port;
    const std::vector<std::string> endpoints = {port.endpoint(), port.endpoint()};
    CHECK(listen_at_rendezvous(base::tcp_rendezvous(endpoints)).value().size() == 1);
}

TEST_CASE("a wait at the end of the job has its own limit", "[processes]") {
    const ReservedPort port;
    const std::string rendezvous = base::tcp_rendezvous(std::vector<std::string>{port.endpoint()});
    const auto ends = run_processes(2, [&](int rank) {
        SocketControlPlaneOptions options = tcp_options(rendezvous, rank, 2);
        bool has_begun = false;
        // The control plane asks this function whether to give up a wait. Here, the function returns an error as soon
        // as the ranks are connected. A wait at the end of the job must ignore the error, because ranks may leave then.
        options.interruption = [&](int, int) {
            return has_begun ? failure(ErrorCode::aborted, "a rank has ended") : Status();
        };
        return with_tcp_plane(options, [&](ControlPlane& plane) -> std::string {
            has_begun = true;
            if (rank == 1) {
                std::this_thread::sleep_for(300ms);
            }
            const std::string in_time = outcome(plane.barrier_within(20s));
            return rank == 1 || in_time != "ok" ? in_time : outcome(plane.barrier_within(200ms));
        });
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Timeout: barrier: rank 1 did not come within 0.2 s") ||
                            Catch::StartsWith("Aborted: barrier: rank 1 has closed its connection"));
    CHECK(ends[1] == "ok");
}

TEST_CASE("a rendezvous over TCP needs addresses and a secret", "[unit]") {
    SocketControlPlaneOptions options = tcp_options("tcp:10.0.0.1", 0, 2);
    CHECK_THAT(outcome(open_socket_control_plane(options).status()),
               Catch::StartsWith("InvalidArgument: rendezvous 'tcp:10.0.0.1' is no list of addresses"));
    options.rendezvous = "tcp:192.0.2.1:4711";
    CHECK_THAT(outcome(open_socket_control_plane(options).status()),
               Catch::StartsWith("Unsupported: rank 0 cannot listen at any address of 'tcp:192.0.2.1:4711': listen at "
                                 "192.0.2.1:4711 failed: "));
    options.secret.clear();
    CHECK_THAT(outcome(open_socket_control_plane(options).status()),
               Catch::StartsWith("InvalidArgument: rendezvous 'tcp:192.0.2.1:4711' needs a secret"));
}

}  // namespace
}  // namespace rueda::collectives
