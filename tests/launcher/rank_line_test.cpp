// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the socket between a rank and the process that started it, and the notifications through this socket.
#include "launcher/watch/rank_line.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>

#include "base/launcher_notification.hpp"
#include "base/shared_memory/step_page.hpp"
#include "launcher/repeated_steps.hpp"

namespace rueda::launcher {
namespace {

using Kind = base::LauncherNotification::Kind;

std::string heard(int fd) {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

void say(int fd, const std::string& bytes) {
    REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

/// Receives the first notification. Returns the file that came with it.
base::UniqueFd step_file(int fd) {
    std::array<char, 4096> buffer{};
    alignas(cmsghdr) std::array<char, 256> control{};
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    REQUIRE(got > 0);
    const auto notification = base::parse_launcher_notification({buffer.data(), static_cast<std::size_t>(got)});
    REQUIRE(notification.is_ok());
    CHECK(notification.value().kind == Kind::steps);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    REQUIRE(header != nullptr);
    int file = -1;
    std::memcpy(&file, CMSG_DATA(header), sizeof file);
    return base::UniqueFd(file);
}

TEST_CASE("a program finds its end of the socket, and no other child inherits one", "[unit]") {
    RankLine line;
    line.notify("before it is open");
    CHECK(line.take_abort_reason().empty());
    REQUIRE(line.open().is_ok());
    const int fd = line.child_fd();
    struct stat facts {};
    REQUIRE(::fstat(fd, &facts) == 0);
    CHECK(line.address(2, 5) == std::to_string(fd) + ":" + std::to_string(facts.st_ino) + ":2:5");
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(step_file(fd).is_open());
    line.notify("one");
    line.notify("two");
    CHECK(heard(fd) == "one");
    CHECK(heard(fd) == "two");
    CHECK(heard(fd).empty());
}

TEST_CASE("the steps that a program counted are known after its end", "[unit]") {
    RankLine line;
    CHECK_FALSE(line.steps().is_known());
    REQUIRE(line.open().is_ok());
    CHECK_FALSE(line.steps().is_known());
    {
        const base::UniqueFd file = step_file(line.child_fd());
        base::StepPage page;
        page.begin(1);  // the rank has no step file yet, so this step is not recorded
        page.open(file.value());
        REQUIRE(page.is_open());
        for (const std::int64_t step : {40, 41, 42}) {
            page.begin(step);
        }
    }
    line.close_child_end();
    CHECK(line.steps().first == 40);
    CHECK(line.steps().last == 42);
}

TEST_CASE("a file that is not a step file is left alone, and wrong numbers in one count as unknown", "[unit]") {
    base::StepPage page;
    const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    page.open(null.value());
    page.open(-1);
    CHECK_FALSE(page.is_open());
    const auto file = base::make_step_file();
    REQUIRE(file.is_ok());
    CHECK(::ftruncate(file.value().value(), 0) != 0);  // the file is sealed, so no process can shorten it
    const std::array<std::int64_t, 2> nonsense = {7, 3};
    REQUIRE(::pwrite(file.value().value(), nonsense.data(), sizeof nonsense, 0) == sizeof nonsense);
    CHECK_FALSE(base::read_step_file(file.value().value()).is_known());
    CHECK_FALSE(base::read_step_file(null.value()).is_known());
}

TEST_CASE("steps that attempts began again are counted", "[unit]") {
    RepeatedSteps steps;
    steps.add({}, false);
    CHECK_FALSE(steps.are_known());
    steps.add({0, 9}, false);  // the steps 0 to 8 were completed
    CHECK(steps.count() == 0);
    // The earlier attempt completed steps 0 to 8. This attempt completed steps 5 and 6 again, and failed in step 7.
    steps.add({5, 7}, false);
    CHECK(steps.count() == 2);
    steps.add({6, 20}, false);  // 6, 7 and 8
    CHECK(steps.count() == 5);
    steps.add({20, 25}, false);  // the previous attempt had begun step 20, but not completed it, so no step is repeated
    CHECK(steps.count() == 5);
    steps.add({30, 30}, false);
    steps.add({}, false);
    CHECK(steps.count() == 5);
    steps.add({27, 28}, true);
    CHECK(steps.count() == 7);
    CHECK(steps.reached() == 30);
    CHECK(steps.are_known());
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (int attempt = 0; attempt < 4; ++attempt) {
        steps.add({0, kMost - 1}, true);  // the count must not overflow, whatever values a program has written
    }
    CHECK(steps.count() == kMost);
    CHECK(steps.reached() == kMost - 1);
    CHECK(joined({}, {3, 4}).first == 3);
    CHECK(joined({3, 4}, {}).last == 4);
    CHECK(joined({3, 4}, {2, 9}).first == 2);
    CHECK(joined({3, 4}, {2, 9}).last == 9);
}

TEST_CASE("the last reason of an abort counts, and other messages do not", "[unit]") {
    RankLine line;
    REQUIRE(line.open().is_ok());
    say(line.child_fd(), "nonsense");
    say(line.child_fd(), base::encode({Kind::failed, 1, "not for a rank to say"}));
    CHECK(line.take_abort_reason().empty());
    say(line.child_fd(), base::encode({Kind::aborted, 1, "rank 0 was killed"}));
    say(line.child_fd(), base::encode({Kind::aborted, 1, "rank 2 was killed"}));
    CHECK(line.take_abort_reason() == "rank 2 was killed");
    CHECK(line.take_abort_reason().empty());
    // The launcher must receive the reason even if the program ended without reading its notifications.
    say(line.child_fd(), base::encode({Kind::aborted, 1, "its last reason"}));
    line.notify("a notification that the program does not read");
    line.close_child_end();
    CHECK(line.take_abort_reason() == "its last reason");
}

TEST_CASE("a worker of an elastic job that waits is no longer the echo of an abort", "[unit]") {
    RankLine line;
    REQUIRE(line.open().is_ok());
    CHECK(line.fd() >= 0);
    CHECK_FALSE(line.take_wait());
    say(line.child_fd(), base::encode({Kind::aborted, 1, "rank 0 was killed"}));
    CHECK_FALSE(line.take_wait());
    say(line.child_fd(), base::encode({Kind::waits, 1, ""}));
    CHECK(line.take_wait());
    CHECK_FALSE(line.take_wait());
    CHECK(line.take_abort_reason().empty());
    say(line.child_fd(), base::encode({Kind::aborted, 1, "rank 2 was killed"}));
    CHECK_FALSE(line.take_wait());
    line.close_child_end();
    CHECK_FALSE(line.take_wait());
    // The other end is closed. If this end stayed open, it would wake ruedarun again and again.
    CHECK(line.fd() == -1);
    CHECK(line.take_abort_reason() == "rank 2 was killed");
}

TEST_CASE("a program that does not read, or has ended, does not block its parent", "[unit]") {
    RankLine line;
    REQUIRE(line.open().is_ok());
    for (int i = 0; i < 10000; ++i) {
        line.notify(std::string(500, 'x'));
    }
    line.close_child_end();
    line.notify("gone");
    CHECK(line.take_abort_reason().empty());
}

}  // namespace
}  // namespace rueda::launcher
