// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the transport whose leaders have TCP connections to each other.
#include "collectives/tcp/leader_transport.hpp"

#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "collectives/set_transport.hpp"
#include "collectives/tcp/leader_rendezvous.hpp"
#include "tests/collectives/tcp/linked_pair.hpp"
#include "tests/collectives/transport_checks.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using collectives::Bytes;
using collectives::ConnectedLeader;
using collectives::LeaderTransport;
using collectives::Transport;
using Channel = Transport::Channel;

constexpr std::size_t kMostBytes = 100'000;

Bytes bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// Two ranks in one thread. Both are leaders, and a pair of sockets connects them. Messages that do not go over this
/// connection use the transport for ranks that are threads.
struct TwoLeaders {
    explicit TwoLeaders(LinkedPair pair = LinkedPair(kMostBytes)) {
        links = {pair.a.get(), pair.b.get()};
        std::vector<ConnectedLeader> of_a;
        std::vector<ConnectedLeader> of_b;
        of_a.push_back({1, std::move(pair.a)});
        of_b.push_back({0, std::move(pair.b)});
        REQUIRE(a->add(0, std::move(of_a)).is_ok());
        REQUIRE(b->add(0, std::move(of_b)).is_ok());
    }
    static std::unique_ptr<LeaderTransport> make(collectives::ControlPlane& plane) {
        return LeaderTransport::create(*plane.transport(), 5s, kMostBytes).value();
    }

    std::vector<std::unique_ptr<collectives::ControlPlane>> planes = collectives::make_thread_control_planes(2);
    std::unique_ptr<LeaderTransport> a = make(*planes[0]);
    std::unique_ptr<LeaderTransport> b = make(*planes[1]);
    std::vector<collectives::LeaderLink*> links;
};

TEST_CASE("the transport of leaders passes the checks of all transports", "[threads]") {
    constexpr int kSize = 3;
    auto planes = collectives::make_thread_control_planes(kSize);
    std::vector<std::string> results(kSize);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kSize; ++rank) {
        threads.emplace_back([&, rank] {
            auto& plane = *planes[static_cast<std::size_t>(rank)];
            // Every rank has a connection to every other one.
            collectives::WantedLeaders wanted;
            std::vector<ConnectedLeader> all;
            for (int round = 0; round + 1 < kSize; ++round) {
                wanted.parent = rank == round + 1 ? std::optional(round) : std::nullopt;
                wanted.children = rank == round ? std::vector<int>{round + 1} : std::vector<int>();
                auto rendezvous = rendezvous_of_leaders(plane, wanted);
                for (ConnectedLeader& leader : rendezvous.value().leaders) {
                    all.push_back(std::move(leader));
                }
            }
            wanted.parent = rank == 2 ? std::optional(0) : std::nullopt;
            wanted.children = rank == 0 ? std::vector<int>{2} : std::vector<int>();
            auto rendezvous = rendezvous_of_leaders(plane, wanted);
            for (ConnectedLeader& leader : rendezvous.value().leaders) {
                all.push_back(std::move(leader));
            }
            auto transport = TwoLeaders::make(plane);
            const Status added = transport->add(0, std::move(all));
            results[static_cast<std::size_t>(rank)] =
                added.is_ok() ? exercise_transport(*transport, rank, kSize, 1'000'000) : added.message();
            static_cast<void>(plane.barrier());
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(results == std::vector<std::string>(kSize, "ok"));
}

TEST_CASE("messages of leaders go over the connection, all others over the inner transport", "[threads]") {
    TwoLeaders two;
    Bytes control_room(10);
    Bytes data_room(10);
    const auto control = two.b->receive(0, Channel::control, control_room).value();
    const auto data = two.b->receive(0, Channel::data, data_room).value();
    const Bytes words = bytes_of("words");
    const auto sent = two.a->send(1, Channel::control, words).value();
    CHECK(finish(*two.a, sent).value() == 5);
    CHECK(finish(*two.b, control).value() == 5);
    CHECK(two.b->wakes(Channel::control));
    CHECK(two.b->wakes(Channel::diagnostics));
    CHECK_FALSE(two.b->wakes(Channel::data));
    CHECK_FALSE(two.b->wakes(Channel::end_reason));
    CHECK_FALSE(two.b->wakes({Channel::control, 1}));  // no set 1 was added
    two.links[0]->close();
    const auto also_sent = two.a->send(1, Channel::data, words).value();
    CHECK(finish(*two.b, data).value() == 5);
    CHECK(finish(*two.a, also_sent).value() == 5);
}

TEST_CASE("a message that arrives before its receive waits for it", "[threads]") {
    TwoLeaders two;
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("first")).value());
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("second")).value());
    static_cast<void>(two.a->send(1, Channel::diagnostics, bytes_of("other")).value());
    while (!two.b->take_in()) {
    }
    CHECK_FALSE(two.b->take_in());
    for (const std::string expected : {"first", "second"}) {
        Bytes room(100);
        const auto ticket = two.b->receive(0, Channel::control, room).value();
        CHECK(two.b->test(ticket).value() == expected.size());
        CHECK(Bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(expected.size())) == bytes_of(expected));
    }
    Bytes room(100);
    const auto ticket = two.b->receive(0, Channel::diagnostics, room).value();
    CHECK(two.b->test(ticket).value() == 5U);
}

TEST_CASE("the sets of a job share a connection", "[threads]") {
    TwoLeaders two;
    REQUIRE(two.a->add(7, {}).is_ok());
    REQUIRE(two.b->add(7, {}).is_ok());
    collectives::SetTransport set_of_b(*two.b, {0, 1}, 7);
    CHECK(set_of_b.wakes(Channel::control));
    Bytes world_room(10);
    Bytes set_room(10);
    const auto world = two.b->receive(0, Channel::control, world_room).value();
    const auto set = set_of_b.receive(0, Channel::control, set_room).value();
    static_cast<void>(collectives::SetTransport(*two.a, {0, 1}, 7).send(1, Channel::control, bytes_of("set")).value());
    CHECK(finish(*two.b, set).value() == 3);
    CHECK_FALSE(two.b->test(world).value().has_value());
    // After the end of a set, its messages are dropped.
    const auto again = set_of_b.receive(0, Channel::control, set_room).value();
    CHECK(set_of_b.cancel(again).value());
    static_cast<void>(two.a->send(1, {Channel::control, 7}, bytes_of("late")).value());
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("world")).value());
    CHECK(finish(*two.b, world).value() == 5);
}

TEST_CASE("a message that was read by the test of another receive is not forgotten", "[threads]") {
    TwoLeaders two;
    REQUIRE(two.b->add(7, {}).is_ok());
    Bytes world_room(10);
    Bytes set_room(10);
    const auto world = two.b->receive(0, Channel::control, world_room).value();
    const auto set = two.b->receive(0, {Channel::control, 7}, set_room).value();
    CHECK_FALSE(two.b->has_arrived());
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("world")).value());
    while (!two.b->has_arrived()) {
        REQUIRE_FALSE(two.b->test(set).value().has_value());
    }
    // The message has already been read from its socket. So no socket is readable, but the rank must not sleep.
    CHECK(two.b->take_in());
    CHECK(two.b->take_in());
    CHECK(two.b->test(world).value() == 5U);
    CHECK_FALSE(two.b->has_arrived());
    CHECK_FALSE(two.b->take_in());
    // No rank waits for a cancelled receive.
    const auto again = two.b->receive(0, Channel::control, world_room).value();
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("again")).value());
    while (!two.b->has_arrived()) {
        REQUIRE_FALSE(two.b->test(set).value().has_value());
    }
    CHECK(two.b->cancel(again).value());
    CHECK_FALSE(two.b->has_arrived());
}

TEST_CASE("when a leader ends, its last message arrives before the failure", "[threads]") {
    TwoLeaders two;
    Bytes room(100);
    const auto first = two.b->receive(0, Channel::control, room).value();
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("reason")).value());
    two.links[0]->close();
    CHECK(finish(*two.b, first).value() == 6);
    const auto second = two.b->receive(0, Channel::control, room).value();
    const auto failed = finish(*two.b, second);
    CHECK(failed.status().code() == ErrorCode::aborted);
    CHECK(failed.status().message() ==
          "the connection to rank 0 (the first rank of another host) has ended: the other process closed it or has "
          "ended");
    // A message to a leader that has ended counts as sent at once. The ended connection wakes no rank.
    const auto answer = two.b->send(0, Channel::control, bytes_of("answer")).value();
    CHECK(two.b->test(answer).value() == 6U);
    CHECK_FALSE(two.b->take_in());
}

TEST_CASE("the end of a leader that leaves in order is no failure", "[threads]") {
    TwoLeaders two;
    Bytes room(100);
    const auto first = two.b->receive(0, Channel::control, room).value();
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("closed")).value());
    two.a->close(/*says_farewell=*/true);
    CHECK(finish(*two.b, first).value() == 6);
    const auto second = two.b->receive(0, Channel::control, room).value();
    while (two.b->take_in()) {
    }
    CHECK_FALSE(two.links[1]->ended().is_ok());
    CHECK_FALSE(two.b->test(second).value().has_value());
    CHECK(two.b->cancel(second).value());
}

TEST_CASE("a message that is longer than its room is a failure", "[threads]") {
    TwoLeaders two;
    Bytes room(3);
    const auto ticket = two.b->receive(0, Channel::control, room).value();
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("long")).value());
    const auto failed = finish(*two.b, ticket);
    CHECK(failed.status().message() == "rank 0 sent 4 bytes where this rank has room for 3");
}

TEST_CASE("after it was abandoned, a transport of leaders does nothing", "[threads]") {
    TwoLeaders two;
    Bytes room(3);
    const auto ticket = two.b->receive(0, Channel::control, room).value();
    two.b->abandon();
    CHECK(two.b->test(ticket).status().code() == ErrorCode::aborted);
    CHECK(two.b->send(0, Channel::control, room).status().code() == ErrorCode::aborted);
    CHECK(two.b->receive(0, Channel::data, room).status().code() == ErrorCode::aborted);
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("abc")).value());
    CHECK_FALSE(two.b->take_in());
}

TEST_CASE("a message wakes a rank that has armed its wake-ups", "[threads]") {
    TwoLeaders two;
    std::counting_semaphore<> rings{0};
    REQUIRE(two.b->start([&rings] { rings.release(); }).is_ok());
    Bytes room(100);
    for (int round = 0; round < 20; ++round) {
        const auto ticket = two.b->receive(0, Channel::control, room).value();
        REQUIRE_FALSE(two.b->take_in());
        two.b->arm();
        const Bytes words = bytes_of("wake up");
        static_cast<void>(two.a->send(1, Channel::control, words).value());
        REQUIRE(rings.try_acquire_for(60s));  // the watch's thread wakes the rank: it releases the semaphore
        CHECK(two.b->take_in());
        CHECK(two.b->test(ticket).value() == 7U);
    }
    two.b->close();
    CHECK_FALSE(rings.try_acquire());
}

TEST_CASE("a heartbeat wakes no rank, and is read with the next message", "[threads]") {
    TwoLeaders two(LinkedPair(LinkedPair::tcp_sockets(), kMostBytes));
    std::counting_semaphore<> rings{0};
    REQUIRE(two.b->start([&rings] { rings.release(); }).is_ok());
    for (int round = 0; round < 20; ++round) {
        REQUIRE_FALSE(two.b->take_in());
        two.b->arm();
        static_cast<void>(two.a->send(1, Channel::control, bytes_of("h")).value());
        CHECK_FALSE(rings.try_acquire_for(round == 0 ? 50ms : 0ms));
        static_cast<void>(two.a->send(1, Channel::control, bytes_of("words")).value());
        REQUIRE(rings.try_acquire_for(60s));  // the watch's thread wakes the rank: it releases the semaphore
        for (const std::size_t expected : {std::size_t{1}, std::size_t{5}}) {
            Bytes room(100);
            const auto ticket = two.b->receive(0, Channel::control, room).value();
            CHECK(finish(*two.b, ticket).value() == expected);
        }
    }
    // If a rank polls for another reason, it must also read a heartbeat that has arrived.
    Bytes room(100);
    const auto ticket = two.b->receive(0, Channel::control, room).value();
    two.b->arm();
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("h")).value());
    CHECK(finish(*two.b, ticket).value() == 1);
    // The end of the connection wakes the rank, even if a heartbeat was left unread.
    two.b->arm();
    static_cast<void>(two.a->send(1, Channel::control, bytes_of("h")).value());
    two.links[0]->close();
    REQUIRE(rings.try_acquire_for(60s));
}

TEST_CASE("the last bytes of a message wake the rank, however few they are", "[threads]") {
    const std::array<int, 2> ends = LinkedPair::tcp_sockets();
    TwoLeaders two(LinkedPair(ends, kMostBytes));
    std::counting_semaphore<> rings{0};
    REQUIRE(two.b->start([&rings] { rings.release(); }).is_ok());
    // The test composes the message with another leader's object, so that the test can send the bytes in pieces.
    LinkedPair composing(kMostBytes);
    const int composed = composing.b->fd();
    static_cast<void>(
        composing.a->send({collectives::LinkHeader::Kind::message, Channel::control}, std::string(50, 'x')));
    std::array<char, 200> bytes{};
    const ssize_t size = ::recv(composed, bytes.data(), bytes.size(), MSG_DONTWAIT);
    REQUIRE(size == 16 + 50 + 16);
    Bytes room(100);
    const auto ticket = two.b->receive(0, Channel::control, room).value();
    const std::array<ssize_t, 5> cuts = {0, 40, 70, size - 1, size};
    for (std::size_t piece = 1; piece < cuts.size(); ++piece) {
        REQUIRE_FALSE(two.b->test(ticket).value().has_value());
        two.b->arm();
        const auto length = static_cast<std::size_t>(cuts[piece] - cuts[piece - 1]);
        REQUIRE(::send(ends[0], bytes.data() + cuts[piece - 1], length, MSG_NOSIGNAL) == static_cast<ssize_t>(length));
        REQUIRE(rings.try_acquire_for(60s));
    }
    CHECK(finish(*two.b, ticket).value() == 50U);
    CHECK_FALSE(two.b->take_in());
}

}  // namespace
}  // namespace rueda::tests
