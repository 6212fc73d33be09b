// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the messages on a connection between two leaders.
#include "collectives/tcp/leader_link.hpp"

#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/collectives/tcp/linked_pair.hpp"

namespace rueda::tests {
namespace {

using collectives::encode;
using collectives::LeaderLink;
using collectives::LinkHeader;
using collectives::LinkHeaderBytes;
using collectives::parse_link_header;
using collectives::Transport;
using Channel = Transport::Channel;

LinkHeader header_of(Channel channel, std::uint32_t set) { return {LinkHeader::Kind::message, {channel, set}}; }

std::string text_of(const LinkHeaderBytes& bytes) { return {bytes.data(), bytes.size()}; }

TEST_CASE("a header keeps its fields", "[unit]") {
    LinkHeader header = header_of(Channel::diagnostics, 7999);
    header.bytes = 1000;
    const auto parsed = parse_link_header(text_of(encode(header)), 1000);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().kind == LinkHeader::Kind::message);
    CHECK(parsed.value().port == Transport::Port(Channel::diagnostics, 7999));
    CHECK(parsed.value().bytes == 1000);
}

TEST_CASE("a header that no leader writes is refused", "[unit]") {
    LinkHeader header = header_of(Channel::control, 1);
    header.bytes = 1000;
    const std::string good = text_of(encode(header));
    CHECK_FALSE(parse_link_header(good, 999).is_ok());
    CHECK_FALSE(parse_link_header(good.substr(1), 1000).is_ok());
    CHECK_FALSE(parse_link_header("", 1000).is_ok());
    for (const std::size_t position : {0U, 3U, 4U, 5U, 6U, 7U, 10U}) {  // magic, kind, channel, zeros, set
        std::string bad = good;
        bad[position] = static_cast<char>(0x7F);
        INFO(position);
        CHECK_FALSE(parse_link_header(bad, 1U << 30U).is_ok());
    }
    header.port = {Channel::data};
    CHECK_FALSE(parse_link_header(text_of(encode(header)), 1000).is_ok());
}

TEST_CASE("messages arrive whole and in order, with their ports", "[unit]") {
    LinkedPair pair;
    std::vector<std::string> contents;
    for (std::size_t i = 0; i < 50; ++i) {
        contents.emplace_back(i * i * 11, static_cast<char>('a' + i % 26));
    }
    std::vector<LeaderLink::Message> arrived;
    for (std::size_t i = 0; i < contents.size(); ++i) {
        static_cast<void>(
            pair.a->send(header_of(i % 2 == 0 ? Channel::control : Channel::diagnostics, static_cast<std::uint32_t>(i)),
                         contents[i]));
    }
    // The socket's buffer does not hold all messages, so the two sides take turns.
    while (arrived.size() < contents.size()) {
        pair.a->flush();
        for (LeaderLink::Message& message : pair.b->receive()) {
            arrived.push_back(std::move(message));
        }
        REQUIRE(pair.b->ended().is_ok());
    }
    for (std::size_t i = 0; i < contents.size(); ++i) {
        CHECK(arrived[i].content == contents[i]);
        CHECK(arrived[i].header.port ==
              Transport::Port(i % 2 == 0 ? Channel::control : Channel::diagnostics, static_cast<std::uint32_t>(i)));
    }
    CHECK_FALSE(pair.a->has_output());
}

TEST_CASE("a message is sent when the kernel has all its bytes", "[unit]") {
    LinkedPair pair(10'000'000);
    const std::string large(5'000'000, 'x');
    const std::uint64_t position = pair.a->send(header_of(Channel::control, 0), large);
    CHECK_FALSE(pair.a->has_sent(position));
    std::vector<LeaderLink::Message> arrived;
    while (arrived.empty()) {
        arrived = pair.b->receive();
        pair.a->flush();
    }
    CHECK(pair.a->has_sent(position));
    CHECK(arrived.front().content == large);
}

TEST_CASE("a message that was changed ends the connection", "[unit]") {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
    base::MessageKeys keys;
    LinkHeader header = header_of(Channel::control, 0);
    header.bytes = 5;
    const std::string head = text_of(encode(header));
    base::MessageCodes codes(keys.sending);
    std::string bytes = head + "hello" + codes.next(head, "hello");
    const base::UniqueFd writer(fds[1]);
    LeaderLink link({base::UniqueFd(fds[0]), keys}, 100);
    SECTION("nothing was changed") {
        REQUIRE(::send(fds[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
        const auto messages = link.receive();
        REQUIRE(messages.size() == 1);
        CHECK(messages.front().content == "hello");
        SECTION("but the message is repeated") {
            REQUIRE(::send(fds[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
            CHECK(link.receive().empty());
            CHECK(link.ended().message().find("changed on its way") != std::string::npos);
        }
    }
    SECTION("a byte of the content, the set, or the code") {
        for (const std::size_t position : {std::size_t{18}, std::size_t{8}, bytes.size() - 1}) {
            std::array<int, 2> more{};
            REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, more.data()) == 0);
            const base::UniqueFd sender(more[1]);
            LeaderLink fresh({base::UniqueFd(more[0]), keys}, 100);
            std::string changed = bytes;
            changed[position] = static_cast<char>(changed[position] ^ 1);
            REQUIRE(::send(more[1], changed.data(), changed.size(), 0) == static_cast<ssize_t>(changed.size()));
            CHECK(fresh.receive().empty());
            CHECK(fresh.ended().message().find("changed on its way") != std::string::npos);
        }
    }
}

TEST_CASE("the messages before the end of a connection can be received", "[unit]") {
    LinkedPair pair;
    static_cast<void>(pair.a->send(header_of(Channel::control, 0), "last words"));
    pair.a->close();
    std::vector<LeaderLink::Message> arrived = pair.b->receive();
    REQUIRE(arrived.size() == 1);
    CHECK(arrived.front().content == "last words");
    CHECK(pair.b->receive().empty());
    CHECK(pair.b->ended().code() == ErrorCode::aborted);
    CHECK(pair.b->ended().message() == "the other process closed it or has ended");
    // A message that cannot be sent counts as sent, so that no rank waits for it.
    CHECK(pair.b->has_sent(pair.b->send(header_of(Channel::control, 0), "answer")));
}

}  // namespace
}  // namespace rueda::tests
