// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the leaders of a job connect to each other. The ranks are threads, and the network is the loopback.
#include "collectives/tcp/leader_rendezvous.hpp"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/network/socket_address.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using collectives::LeaderCard;
using collectives::LeaderLink;
using collectives::LeaderListener;
using collectives::LeaderRendezvous;
using collectives::LeaderRendezvousOptions;
using collectives::LinkHeader;
using collectives::WantedLeaders;

/// Runs rendezvous_of_leaders() on all ranks, one thread for each.
std::vector<LeaderRendezvous> rendezvous_of(int size, const std::function<WantedLeaders(int)>& wanted,
                                            const std::function<LeaderRendezvousOptions(int)>& options) {
    auto planes = collectives::make_thread_control_planes(size);
    std::vector<LeaderRendezvous> all(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            const auto place = static_cast<std::size_t>(rank);
            auto rendezvous = rendezvous_of_leaders(*planes[place], wanted(rank), options(rank));
            all[place] = rendezvous.is_ok() ? std::move(rendezvous).value()
                                            : LeaderRendezvous{{}, "plane: " + rendezvous.status().message()};
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return all;
}

/// Rank 0 is the parent of all others.
WantedLeaders star(int rank, int size) {
    WantedLeaders wanted;
    if (rank == 0) {
        for (int child = 1; child < size; ++child) {
            wanted.children.push_back(child);
        }
    } else {
        wanted.parent = 0;
    }
    return wanted;
}

LeaderRendezvousOptions patient(int /*rank*/) {
    LeaderRendezvousOptions options;
    options.time = 60s;
    return options;
}

LeaderListener listener_at(const std::vector<std::string>& before, const std::vector<std::string>& after = {}) {
    LeaderListener listener;
    listener.sockets.push_back(base::listen_at(*base::network_address("127.0.0.1", 0)));
    REQUIRE(listener.sockets.front().is_open());
    listener.endpoints = before;
    listener.endpoints.push_back("127.0.0.1:" + std::to_string(base::port_of(listener.sockets.front().value())));
    listener.endpoints.insert(listener.endpoints.end(), after.begin(), after.end());
    return listener;
}

/// Each pair sends a message in each direction over its connection.
void check_links(std::vector<LeaderRendezvous>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        for (const auto& leader : all[rank].leaders) {
            static_cast<void>(leader.link->send({LinkHeader::Kind::message, collectives::Transport::Channel::control},
                                                std::to_string(rank) + " to " + std::to_string(leader.rank)));
        }
    }
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        for (const auto& leader : all[rank].leaders) {
            std::vector<LeaderLink::Message> arrived;
            while (arrived.empty() && leader.link->ended().is_ok()) {
                arrived = leader.link->receive();
            }
            REQUIRE(arrived.size() == 1);
            CHECK(arrived.front().content == std::to_string(leader.rank) + " to " + std::to_string(rank));
        }
    }
}

void check_all_connected(std::vector<LeaderRendezvous>& all) {
    for (const LeaderRendezvous& one : all) {
        CHECK(one.why_not.empty());
    }
    check_links(all);
}

TEST_CASE("a leader and its children connect", "[threads]") {
    constexpr int kSize = 6;
    auto all = rendezvous_of(
        kSize, [](int rank) { return star(rank, kSize); }, patient);
    CHECK(all[0].leaders.size() == kSize - 1);
    for (std::size_t rank = 0; rank < kSize; ++rank) {
        INFO(rank);
        CHECK(all[rank].why_not.empty());
        CHECK(all[rank].leaders.size() == (rank == 0 ? kSize - 1 : 1));
    }
    check_links(all);
}

TEST_CASE("a chain of leaders connects, although ranks between them take no part", "[threads]") {
    const auto chain = [](int rank) {
        WantedLeaders wanted;
        if (rank % 2 == 0) {
            wanted.parent = rank > 0 ? std::optional(rank - 2) : std::nullopt;
            wanted.children = rank < 6 ? std::vector<int>{rank + 2} : std::vector<int>();
        }
        return wanted;
    };
    auto all = rendezvous_of(8, chain, patient);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        CHECK(all[rank].why_not.empty());
        CHECK(all[rank].leaders.size() == (rank % 2 == 1 ? 0 : rank == 0 || rank == 6 ? 1 : 2));
    }
    check_links(all);
}

TEST_CASE("addresses that refuse or are silent delay nothing", "[threads]") {
    // A listener that accepts connections in the kernel, and never answers.
    const base::UniqueFd silent = base::listen_at(*base::network_address("127.0.0.1", 0));
    REQUIRE(silent.is_open());
    const std::string silent_endpoint = "127.0.0.1:" + std::to_string(base::port_of(silent.value()));
    const auto options = [&](int rank) {
        LeaderRendezvousOptions with = patient(rank);
        with.listen = [&] { return listener_at({"127.0.0.1:1", silent_endpoint, "[::ffff:0:0]:9"}); };
        return with;
    };
    const auto begin = std::chrono::steady_clock::now();
    auto all = rendezvous_of(
        3, [](int rank) { return star(rank, 3); }, options);
    CHECK(std::chrono::steady_clock::now() - begin < 59s);
    CHECK(all[2].why_not.empty());
    check_links(all);
}

TEST_CASE("an address of another leader of the same job is passed over", "[threads]") {
    // Ranks 0 and 2 listen. Each rank's list of addresses begins with the address of the other rank. This can happen if
    // both ranks listen at 127.0.0.1 and the same port, on two hosts.
    LeaderListener of_zero = listener_at({});
    LeaderListener of_two = listener_at({});
    const std::string zero = of_zero.endpoints.front();
    const std::string two = of_two.endpoints.front();
    of_zero.endpoints = {two, zero};
    of_two.endpoints = {zero, two};
    const auto wanted = [](int rank) {
        WantedLeaders leaders;
        if (rank == 0) {
            leaders.children = {1};
        } else if (rank == 2) {
            leaders.children = {3};
        } else {
            leaders.parent = rank - 1;
        }
        return leaders;
    };
    const auto options = [&](int rank) {
        LeaderRendezvousOptions with = patient(rank);
        with.listen = [&, rank] { return rank == 0 ? std::move(of_zero) : std::move(of_two); };
        return with;
    };
    auto all = rendezvous_of(4, wanted, options);
    for (const LeaderRendezvous& one : all) {
        CHECK(one.why_not.empty());
    }
    REQUIRE(all[1].leaders.size() == 1);
    CHECK(all[1].leaders.front().rank == 0);
    CHECK(all[3].leaders.front().rank == 2);
    check_links(all);
}

TEST_CASE("if one leader cannot connect, no rank keeps a connection, and all know why", "[threads]") {
    const auto options = [](int rank) {
        LeaderRendezvousOptions with = patient(rank);
        with.time = rank == 0 ? 300ms : 60s;  // the other ranks end as soon as their connection is refused
        with.listen = [rank] {
            LeaderListener listener = rank == 0 ? listener_at({}) : LeaderListener();
            if (rank == 0) {
                listener.endpoints = {"127.0.0.1:1"};  // nobody listens at this port
            }
            return listener;
        };
        return with;
    };
    const auto all = rendezvous_of(
        3, [](int rank) { return star(rank, 3); }, options);
    for (const LeaderRendezvous& one : all) {
        CHECK(one.leaders.empty());
        CHECK(one.why_not == "rank 1 could not connect to rank 0 (127.0.0.1:1: Connection refused)");
    }
}

TEST_CASE("leaders that know the secret of the job connect", "[threads]") {
    const auto options = [](int rank) {
        LeaderRendezvousOptions with = patient(rank);
        with.job_secret = "0123456789abcdef";
        return with;
    };
    auto all = rendezvous_of(
        3, [](int rank) { return star(rank, 3); }, options);
    check_all_connected(all);
}

TEST_CASE("the messages of the rendezvous do not suffice to connect if the job has a secret", "[threads]") {
    // Rank 1 gets the cards (connection data) of all ranks, but does not know the secret of the job.
    for (const std::string known : {"", "another secret"}) {
        CAPTURE(known);
        const auto options = [&](int rank) {
            LeaderRendezvousOptions with = patient(rank);
            with.time = rank == 0 ? 300ms : 60s;  // rank 1 ends as soon as its connection is refused
            with.listen = [] { return listener_at({}); };
            with.job_secret = rank == 0 ? "the secret of the job" : known;
            return with;
        };
        for (const LeaderRendezvous& one : rendezvous_of(
                 2, [](int rank) { return star(rank, 2); }, options)) {
            CHECK(one.leaders.empty());
            CHECK_THAT(one.why_not, Catch::StartsWith("rank 1 could not connect to rank 0 (127.0.0.1:") &&
                                        Catch::EndsWith("it does not know the secret of this job)"));
        }
    }
}

TEST_CASE("a rank that can have no connections tells the others", "[threads]") {
    const auto options = [](int rank) {
        LeaderRendezvousOptions with = patient(rank);
        with.time = 300ms;
        with.cannot = rank == 1 ? "epoll_create1: Too many open files" : "";
        return with;
    };
    for (const LeaderRendezvous& one : rendezvous_of(
             2, [](int rank) { return star(rank, 2); }, options)) {
        CHECK(one.leaders.empty());
        CHECK(one.why_not == "rank 1: epoll_create1: Too many open files");
    }
}

TEST_CASE("strangers that connect to a leader get nothing and hinder nobody", "[threads]") {
    std::vector<base::UniqueFd> strangers;
    const auto options = [&](int rank) {
        LeaderRendezvousOptions with = patient(rank);
        with.listen = [&] {
            LeaderListener listener = listener_at({});
            const auto where = base::parse_endpoint(listener.endpoints.front());
            for (std::size_t i = 0; i < 100; ++i) {  // more than the leader keeps
                strangers.push_back(base::open_socket(*where, 0));
                REQUIRE(::connect(strangers.back().value(), where->raw(), where->size) == 0);
                REQUIRE(::send(strangers.back().value(), "GET / HTTP/1.1\r\n", i % 16, MSG_NOSIGNAL) ==
                        static_cast<ssize_t>(i % 16));
            }
            return listener;
        };
        return with;
    };
    auto all = rendezvous_of(
        3, [](int rank) { return star(rank, 3); }, options);
    check_all_connected(all);
    for (const base::UniqueFd& stranger : strangers) {
        char byte = 0;
        CHECK(::recv(stranger.value(), &byte, 1, 0) <= 0);  // closed, without an answer
    }
}

TEST_CASE("a card keeps its fields, and other bytes are refused", "[unit]") {
    const LeaderCard card{"0123456789abcdef", {"10.0.0.1:4711", "[fd00::1]:4712"}};
    const collectives::Bytes bytes = collectives::encode(card);
    const auto parsed = collectives::parse_leader_card(bytes);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().random == card.random);
    CHECK(parsed.value().endpoints == card.endpoints);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        CHECK_FALSE(collectives::parse_leader_card(std::span(bytes).first(length)).is_ok());
    }
    CHECK_FALSE(collectives::parse_leader_card(collectives::encode(LeaderCard{"", std::vector<std::string>(17, "a:1")}))
                    .is_ok());
    CHECK_FALSE(collectives::parse_leader_card(collectives::encode(LeaderCard{std::string(65, 'x'), {}})).is_ok());
    CHECK_FALSE(collectives::parse_leader_card(collectives::encode(LeaderCard{"", {std::string(65, 'x')}})).is_ok());
}

TEST_CASE("a leader listens at addresses that can be parsed, the loopback's last", "[unit]") {
    const LeaderListener listener = collectives::listen_at_all_addresses();
    REQUIRE_FALSE(listener.endpoints.empty());
    CHECK(listener.sockets.size() == listener.endpoints.size());
    for (const std::string& endpoint : listener.endpoints) {
        CHECK(base::parse_endpoint(endpoint).has_value());
    }
    const std::string& last = listener.endpoints.back();
    CHECK((last.starts_with("127.") || last.starts_with("[::1]")));
}

}  // namespace
}  // namespace rueda::tests
