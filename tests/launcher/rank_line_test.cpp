// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The socket between a rank and who has started it, and the messages that bring words there.
#include "launcher/rank_line.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "base/launcher_word.hpp"
#include "launcher/supervisor_protocol.hpp"

namespace rueda::launcher {
namespace {

using Kind = base::LauncherWord::Kind;

std::string heard(int fd) {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

void say(int fd, const std::string& bytes) {
    REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

TEST_CASE("a program finds its end, and no other child has one", "[unit]") {
    RankLine line;
    line.tell("before it is open");
    CHECK(line.take_abort_reason().empty());
    REQUIRE(line.open().is_ok());
    const int fd = line.child_fd();
    struct stat facts {};
    REQUIRE(::fstat(fd, &facts) == 0);
    CHECK(line.address(2, 5) == std::to_string(fd) + ":" + std::to_string(facts.st_ino) + ":2:5");
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    line.tell("one");
    line.tell("two");
    CHECK(heard(fd) == "one");
    CHECK(heard(fd) == "two");
    CHECK(heard(fd).empty());
}

TEST_CASE("the last reason of an abort counts, and nothing that is none", "[unit]") {
    RankLine line;
    REQUIRE(line.open().is_ok());
    say(line.child_fd(), "nonsense");
    say(line.child_fd(), base::encode({Kind::failed, 1, "not for a rank to say"}));
    CHECK(line.take_abort_reason().empty());
    say(line.child_fd(), base::encode({Kind::aborted, 1, "rank 0 was killed"}));
    say(line.child_fd(), base::encode({Kind::aborted, 1, "rank 2 was killed"}));
    CHECK(line.take_abort_reason() == "rank 2 was killed");
    CHECK(line.take_abort_reason().empty());
    // A program that has ended without reading what it was told has said what it has said.
    say(line.child_fd(), base::encode({Kind::aborted, 1, "its last words"}));
    line.tell("a word that nobody reads");
    line.close_child_end();
    CHECK(line.take_abort_reason() == "its last words");
}

TEST_CASE("a program that does not read, or has gone, holds nobody up", "[unit]") {
    RankLine line;
    REQUIRE(line.open().is_ok());
    for (int i = 0; i < 10000; ++i) {
        line.tell(std::string(500, 'x'));
    }
    line.close_child_end();
    line.tell("gone");
    CHECK(line.take_abort_reason().empty());
}

TEST_CASE("a message brings a text with it, whole or not at all", "[unit]") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const base::UniqueFd left(ends[0]);
    const base::UniqueFd right(ends[1]);
    ReceivedMessage received;
    REQUIRE(send_message(left.value(), SupervisorWord::rank_ended, 3, {}, "a text").is_ok());
    REQUIRE(receive_message(right.value(), received) == Reception::message);
    CHECK(received.message.word == SupervisorWord::rank_ended);
    CHECK(received.message.value == 3);
    CHECK(received.text == "a text");
    REQUIRE(send_message(left.value(), SupervisorWord::leave, 0).is_ok());
    REQUIRE(receive_message(right.value(), received) == Reception::message);
    CHECK(received.text.empty());
    REQUIRE(send_message(left.value(), SupervisorWord::rank_ended, 3, {}, std::string(5000, 'x')).is_ok());
    REQUIRE(receive_message(right.value(), received) == Reception::message);
    CHECK(received.text == std::string(kMostMessageText, 'x'));
    CHECK(receive_message(right.value(), received) == Reception::nothing_yet);
    // What was sent before the other end was closed is heard, whatever that had not read.
    std::array<int, 2> others{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, others.data()) == 0);
    base::UniqueFd leaving(others[0]);
    const base::UniqueFd staying(others[1]);
    REQUIRE(send_message(staying.value(), SupervisorWord::deliver, 15).is_ok());
    REQUIRE(send_message(leaving.value(), SupervisorWord::ended, 256).is_ok());
    leaving.reset();
    CHECK(receive_message(staying.value(), received) == Reception::nothing_yet);
    REQUIRE(receive_message(staying.value(), received) == Reception::message);
    CHECK(received.message.value == 256);
    CHECK(receive_message(staying.value(), received) == Reception::closed);
    // Longer than any of ours.
    SupervisorMessage message;
    say(left.value(), std::string(reinterpret_cast<const char*>(&message), sizeof message) + std::string(2000, 'x'));
    CHECK(receive_message(right.value(), received) == Reception::closed);
    say(left.value(), "short");
    CHECK(receive_message(right.value(), received) == Reception::closed);
}

}  // namespace
}  // namespace rueda::launcher
