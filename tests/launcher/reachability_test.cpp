// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how ruedarun finds out which addresses of rank 0's host the other hosts can reach.
#include "launcher/connection/reachability.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/network/socket_address.hpp"
#include "launcher/start/master_choice.hpp"

namespace rueda::launcher {
namespace {

using namespace std::chrono_literals;
using Endpoints = std::vector<std::string>;

constexpr const char* kReachSecret = "0ff1ce";
/// limits that are long enough for a busy machine, on which a thread may sleep for a second
constexpr ReachProbe::Times kPatient{.longest = 60s, .after_first = 60s};

/// Adds a socket that listens at `address` to the listener.
void listen_at(ControlListener& listener, const std::string& address) {
    listener.sockets.push_back(base::listen_at(*base::network_address(address, 0)));
    REQUIRE(listener.sockets.back().is_open());
    listener.address.endpoints.push_back(address + ":" +
                                         std::to_string(base::port_of(listener.sockets.back().value())));
}

ReachListener listener_at(const Endpoints& addresses, const std::string& secret = kReachSecret) {
    ControlListener listener;
    for (const std::string& address : addresses) {
        listen_at(listener, address);
    }
    return {std::move(listener), secret, [](std::string_view line) { FAIL(line); }};
}

/// Runs both sides in one event loop until the probe is over.
Endpoints run(const std::vector<ReachListener*>& listeners, ReachProbe& probe) {
    for (;;) {
        base::PollSet set;
        for (ReachListener* const listener : listeners) {
            listener->add_to(set);
        }
        probe.add_to(set);
        set.wait_and_dispatch();
        if (auto reached = probe.advance(std::chrono::steady_clock::now())) {
            return *reached;
        }
    }
}

base::UniqueFd connect_to(const std::string& endpoint) {
    const auto where = base::parse_endpoint(endpoint);
    base::UniqueFd socket = base::open_socket(*where, 0);
    REQUIRE(::connect(socket.value(), where->raw(), where->size) == 0);
    return socket;
}

TEST_CASE("a probe finds the addresses at which the supervisor of rank 0 listens, and no others", "[unit]") {
    ReachListener own = listener_at({"127.0.0.1", "127.0.0.2"});
    ReachListener of_other_job = listener_at({"127.0.0.1"}, "another secret");
    std::string unused;
    {
        ControlListener gone;
        listen_at(gone, "127.0.0.1");
        unused = gone.address.endpoints.front();
    }
    Endpoints all = own.endpoints();
    all.insert(all.begin() + 1, {unused, of_other_job.endpoints().front()});
    ReachProbe probe(all, kReachSecret, kPatient);
    CHECK(run({&own, &of_other_job}, probe) == own.endpoints());
}

TEST_CASE("an address that is silent does not keep the probe waiting", "[unit]") {
    ReachListener own = listener_at({"127.0.0.1"});
    ControlListener silent;  // no thread accepts connections, so they stay in this listener's queue
    listen_at(silent, "127.0.0.1");
    const auto begin = std::chrono::steady_clock::now();
    ReachProbe probe({silent.address.endpoints.front(), own.endpoints().front()}, kReachSecret,
                     {.longest = 600s, .after_first = 20ms});
    CHECK(run({&own}, probe) == own.endpoints());
    CHECK(std::chrono::steady_clock::now() - begin < 300s);
    ReachProbe alone(silent.address.endpoints, kReachSecret, {.longest = 20ms, .after_first = 600s});
    CHECK(run({}, alone).empty());
}

TEST_CASE("processes that do not know the secret get no proof from rank 0's supervisor, and hinder no probe",
          "[unit]") {
    ReachListener own = listener_at({"127.0.0.1"});
    const std::string endpoint = own.endpoints().front();
    const base::UniqueFd silent = connect_to(endpoint);
    const base::UniqueFd slow = connect_to(endpoint);
    const base::UniqueFd web = connect_to(endpoint);
    const base::UniqueFd guessing = connect_to(endpoint);
    const base::UniqueFd of_ruedarun = connect_to(endpoint);
    REQUIRE(::send(slow.value(), "rueda-p", 7, MSG_NOSIGNAL) == 7);
    REQUIRE(::send(web.value(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    base::Handshake wrong(base::HandshakeSide::connecting, "guessed", kReachPurpose, base::random_nonce().value());
    const std::string opening = wrong.take_output() + std::string(100'000, 'x');
    REQUIRE(::send(guessing.value(), opening.data(), opening.size(), MSG_NOSIGNAL) > 0);
    // A handshake for ruedarun's own connections has another purpose, so the listener must not accept it.
    base::Handshake other(base::HandshakeSide::connecting, kReachSecret, kHandshakePurpose,
                          base::random_nonce().value());
    const std::string other_opening = other.take_output();
    REQUIRE(::send(of_ruedarun.value(), other_opening.data(), other_opening.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(other_opening.size()));
    ReachProbe probe({endpoint}, kReachSecret, kPatient);
    CHECK(run({&own}, probe) == Endpoints{endpoint});

    std::string answer(1000, '\0');
    ssize_t got = 0;
    while (got == 0) {
        base::PollSet set;
        own.add_to(set);
        set.wake_at(std::chrono::steady_clock::now() + 10ms);
        set.wait_and_dispatch();
        got = std::max<ssize_t>(0, ::recv(of_ruedarun.value(), answer.data(), answer.size(), MSG_DONTWAIT));
    }
    answer.resize(static_cast<std::size_t>(got));
    CHECK_FALSE(other.receive(answer).is_ok());
    own.close();
    for (const int stranger : {silent.value(), slow.value(), web.value()}) {
        char byte = 0;
        CHECK(::recv(stranger, &byte, 1, 0) <= 0);  // closed, without an answer
    }
}

TEST_CASE("many silent connections do not keep a probe away", "[unit]") {
    ReachListener own = listener_at({"127.0.0.1"});
    std::vector<base::UniqueFd> strangers;
    for (std::size_t i = 0; i < 2 * ReachListener::kMost; ++i) {
        strangers.push_back(connect_to(own.endpoints().front()));
    }
    ReachProbe probe(own.endpoints(), kReachSecret, kPatient);
    CHECK(run({&own}, probe) == own.endpoints());
}

TEST_CASE("lists of addresses survive the journey, and other texts are left out", "[unit]") {
    const Endpoints some = {"10.0.0.1:4711", "[fd00::1]:4712"};
    CHECK(parse_endpoints(encode_endpoints(some)) == some);
    CHECK(parse_endpoints("").empty());
    CHECK(parse_endpoints(",a:1,@socket,10.0.0.1,10.0.0.1:70000,10.0.0.2:1") == Endpoints{"10.0.0.2:1"});
    CHECK(parse_endpoints(encode_endpoints(Endpoints(17, "10.0.0.1:1"))).size() == 16);
}

TEST_CASE("MASTER_ADDR is the address that the most hosts can reach", "[unit]") {
    const auto now = std::chrono::steady_clock::now();
    const Endpoints offered = {"10.0.0.1:1", "10.1.0.1:2", "[fd00::1]:3"};
    const auto choice_after = [&](const std::vector<std::pair<int, std::string>>& answers) {
        MasterChoice choice(offered, {2, 4}, now);
        for (const auto& [rank, answer] : answers) {
            choice.take(rank, answer);
        }
        return choice.address("10.1.0.1");
    };
    CHECK(choice_after({{2, "10.0.0.1:1,10.1.0.1:2"}, {4, "10.0.0.1:1"}}) == "10.0.0.1");
    CHECK(choice_after({{2, "[fd00::1]:3"}, {4, "10.0.0.1:1,[fd00::1]:3"}}) == "fd00::1");
    // If equally many hosts reach several of the addresses, the usual address (10.1.0.1 in this test) is chosen if it
    // is among them. Otherwise, the first of them is chosen.
    CHECK(choice_after({{2, "10.0.0.1:1,10.1.0.1:2,[fd00::1]:3"}, {4, "10.0.0.1:1,10.1.0.1:2"}}) == "10.1.0.1");
    CHECK(choice_after({{2, "10.0.0.1:1,[fd00::1]:3"}, {4, "10.0.0.1:1,[fd00::1]:3"}}) == "10.0.0.1");
    CHECK(choice_after({{2, "10.0.0.1:1"}, {4, "10.1.0.1:2"}}) == "10.1.0.1");
    // If no answer is useful, the usual address is chosen.
    CHECK(choice_after({}) == "10.1.0.1");
    CHECK(choice_after({{2, ""}, {4, "10.9.0.1:1,10.0.0.1:9"}, {3, "10.0.0.1:1"}}) == "10.1.0.1");
}

TEST_CASE("ruedarun waits for the answers of the hosts that it has asked, for a limited time", "[unit]") {
    const auto now = std::chrono::steady_clock::now();
    MasterChoice choice({"10.0.0.1:1"}, {2, 4}, now);
    CHECK_FALSE(choice.is_complete(now + MasterChoice::kLongest - 1ms));
    CHECK(choice.is_complete(now + MasterChoice::kLongest));
    choice.take(2, "10.0.0.1:1");
    choice.take(2, "");
    choice.take(3, "");
    CHECK_FALSE(choice.is_complete(now));
    choice.take(4, "");
    CHECK(choice.is_complete(now));
}

}  // namespace
}  // namespace rueda::launcher
