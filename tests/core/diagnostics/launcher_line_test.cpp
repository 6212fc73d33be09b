// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/launcher_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "base/system/clock.hpp"
#include "base/system/descriptor_message.hpp"

namespace rueda::core::test {
namespace {

using base::LauncherNotification;
using Kind = LauncherNotification::Kind;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr const char* kSeen = "what this rank saw of the death";

/// A socket pair like ruedarun's: one end for the launcher and one end for the rank.
struct Ends {
    explicit Ends(int type = SOCK_SEQPACKET) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, type, 0, ends.data()) == 0);
        launcher.reset(ends[0]);
        rank.reset(ends[1]);
    }
    /// Returns whether all bytes were sent. The function contains no assertion, because a test also calls it from other
    /// threads.
    [[nodiscard]] bool send(const std::string& bytes) const {
        return ::send(launcher.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
    }
    void say(const std::string& bytes) const { REQUIRE(send(bytes)); }
    void say(Kind kind, int about, const std::string& text) const { say(base::encode({kind, about, text})); }
    [[nodiscard]] std::string hear() const {
        std::array<char, 4096> buffer{};
        const ssize_t got = ::recv(launcher.value(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
    }
    [[nodiscard]] std::string address(int of_rank, int ranks) const {
        struct stat facts {};
        REQUIRE(::fstat(rank.value(), &facts) == 0);
        return fmt::format("{}:{}:{}:{}", rank.value(), facts.st_ino, of_rank, ranks);
    }

    base::UniqueFd launcher;
    base::UniqueFd rank;
};

std::optional<std::string> cause_of(LauncherLine& line, Standing standing = Standing::running) {
    return line.cause([standing] { return standing; }, base::monotonic_ns());
}

TEST_CASE("whether the end of another rank ends the job depends on what this rank is doing") {
    const HeardNotification well{{Kind::ended_well, 1, "rank 1 ended"}, 0};
    const HeardNotification failed{{Kind::failed, 2, "rank 2 was killed"}, 0};
    const auto named = [](std::vector<HeardNotification> heard, Standing standing, std::int64_t now) {
        const LauncherNotification* const notification = cause_among(heard, standing, now);
        return notification == nullptr ? -1 : notification->rank;
    };
    const std::int64_t long_after = 5000 * kMillisecond;

    CHECK(named({}, Standing::running, long_after) == -1);
    // In a job without errors, no rank ends before this rank shuts down. So if another rank ends while this rank is
    // running, the job must end.
    CHECK(named({well}, Standing::running, 0) == 1);
    CHECK(named({failed}, Standing::running, 0) == 2);
    CHECK(named({failed, well}, Standing::running, 0) == 2);
    CHECK(named({well, failed}, Standing::running, 0) == 1);
    // During init, a message that the ended rank sent earlier may still arrive, so the end of that rank ends the job
    // only after 100 ms.
    CHECK(named({well}, Standing::joining, 99 * kMillisecond) == -1);
    CHECK(named({well}, Standing::joining, 100 * kMillisecond) == 1);
    // During shutdown, the orderly end of another rank is no error. If another rank fails, it counts as the cause only
    // after a second, because a rank may also fail after its own shutdown.
    CHECK(named({well}, Standing::shutting_down, long_after) == -1);
    CHECK(named({well, failed}, Standing::shutting_down, 999 * kMillisecond) == -1);
    CHECK(named({well, failed}, Standing::shutting_down, 1000 * kMillisecond) == 2);
    CHECK(named({well, failed}, Standing::closed, long_after) == -1);
}

TEST_CASE("the cause says that a rank with a good exit status left too early") {
    CHECK(describe_cause({Kind::failed, 1, "rank 1 was killed"}) == "rank 1 was killed");
    CHECK(describe_cause({Kind::ended_well, 1, "rank 1 ended with exit status 0"}, Standing::joining) ==
          "rank 1 ended with exit status 0 while other ranks wait for it in rueda::init(): let every rank of the job "
          "call "
          "rueda::init()");
    CHECK(describe_cause({Kind::ended_well, 1, "rank 1 ended with exit status 0"}) ==
          "rank 1 ended with exit status 0 and had not finished rueda::shutdown(), while other ranks still needed it: "
          "let every rank do the same "
          "number of steps, and then call rueda::shutdown(), which _exit() and os._exit() skip");
}

TEST_CASE("the file for steps comes with the first message, which is no notification") {
    Ends ends;
    auto file = base::make_step_file();
    REQUIRE(file.is_ok());
    std::string notification = base::encode({Kind::steps, 0, ""});
    iovec part{notification.data(), notification.size()};
    const int fd = file.value().value();
    REQUIRE(base::send_with_descriptors(ends.launcher.value(), {&part, 1}, {&fd, 1}) > 0);
    LauncherLine line(std::move(ends.rank), 1, 3);
    line.begin_step(12);
    line.begin_step(13);
    CHECK(base::read_step_file(fd).first == 12);
    CHECK(base::read_step_file(fd).last == 13);
    CHECK_FALSE(cause_of(line));
    ends.say(Kind::failed, 2, "rank 2 was killed");
    CHECK(cause_of(line));
}

TEST_CASE("notifications are received and kept, and none is about this rank") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 0, 3);
    CHECK(line.is_about(0, 3));
    CHECK_FALSE(line.is_about(0, 2));
    CHECK_FALSE(line.is_about(1, 3));
    CHECK_FALSE(cause_of(line));
    ends.say(Kind::failed, 0, "this rank itself");
    CHECK_FALSE(cause_of(line));
    ends.say(Kind::failed, 2, "rank 2 was killed");
    ends.say(Kind::failed, 1, "rank 1 fell over it");
    CHECK(cause_of(line) == "rank 2 was killed");
    CHECK_FALSE(cause_of(line, Standing::closed));
    ends.launcher.reset();
    CHECK(cause_of(line) == "rank 2 was killed");
}

TEST_CASE("the failure of a rank that the launcher has reported first is the cause of a later death") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 0, 5);
    ends.say(Kind::ended_well, 4, "rank 4 ended");
    ends.say(Kind::failed, 3, "rank 3 was killed");
    ends.say(Kind::failed, 1, "rank 1 fell over it");
    CHECK(line.cause_of_death(1, kSeen, "no memory") == "rank 3 was killed");
    CHECK(line.cause_of_death(3, kSeen, "") == "rank 3 was killed");
    CHECK(line.cause_of_death(3, kSeen, "no memory") == "rank 3 was killed: no memory");
    CHECK(line.cause_of_death(2, kSeen, "") == "rank 3 was killed");  // there is no notification about rank 2 yet
    // In a job of the launched ranks 0, 1 and 4, rank 3 of the launch is no member.
    line.set_members({0, 1, 4});
    CHECK(line.cause_of_death(1, kSeen, "no memory") ==
          "of the ranks that were launched, rank 1 fell over it: no memory");
    // Rank 2 of the job is rank 4 of the launch, which has ended well before rank 1 failed.
    CHECK(line.cause_of_death(2, kSeen, "").starts_with("of the ranks that were launched, rank 4 ended and had not"));
}

TEST_CASE("the first failure that arrives during the wait is the cause of a death") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 0, 4);
    ends.say(Kind::ended_well, 3, "rank 3 ended");
    bool sent = false;
    std::thread launcher([&] {
        sent = ends.send(base::encode({Kind::failed, 2, "rank 2 was killed"})) &&
               ends.send(base::encode({Kind::failed, 1, "rank 1 fell over it"}));
    });
    CHECK(line.cause_of_death(1, kSeen, "") == "rank 2 was killed");
    launcher.join();
    CHECK(sent);
}

TEST_CASE("a job of some ranks ignores notifications about other ranks, and uses the launch's numbers") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 2, 6);
    line.set_members({5, 2, 4});
    ends.say(Kind::ended_well, 1, "rank 1 ended");
    ends.say(Kind::failed, 0, "rank 0 was killed");
    CHECK_FALSE(cause_of(line));
    CHECK_FALSE(line.notification_of_failure());
    ends.say(Kind::failed, 4, "rank 4 was killed");
    const std::string text = "of the ranks that were launched, rank 4 was killed";
    CHECK(cause_of(line) == text);
    CHECK(line.notification_of_failure() == text);
    // The socket uses the rank numbers of the launch. `line` converts them to rank numbers of the job.
    CHECK(line.cause_of_death(2, kSeen, "") == text);
    // No rank has these numbers. Another process may have written a wrong number into shared memory.
    CHECK(line.cause_of_death(7, kSeen, "no memory") == text);
    CHECK(line.cause_of_death(-1, kSeen, "no memory") == text);
    line.set_members({});  // the next job consists of all launched ranks
    CHECK(cause_of(line) ==
          "rank 1 ended and had not finished rueda::shutdown(), while other ranks still needed it: let every rank do "
          "the same "
          "number of steps, and then call rueda::shutdown(), which _exit() and os._exit() skip");
}

TEST_CASE("notifications that a launcher sent before it ended without reading are received") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 0, 2);
    line.report_abort("nobody reads this");
    ends.say(Kind::failed, 1, "rank 1 was killed");
    ends.launcher.reset();
    CHECK(cause_of(line) == "rank 1 was killed");
}

TEST_CASE("a worker of an elastic job waits for its place, and forgets the previous generation") {
    Ends ends;
    ends.say(Kind::elastic, 0, "");
    LauncherLine line(std::move(ends.rank), 1, 3);
    REQUIRE(line.is_elastic());
    CHECK(line.is_about(1, 3));
    ends.say(Kind::failed, 2, "rank 2 was killed");
    ends.say(Kind::slots_changed, LauncherNotification::kSlotsAdded, "");
    CHECK(cause_of(line) == "rank 2 was killed");
    line.report_abort("rank 2 was killed");
    CHECK(ends.hear() == base::encode({Kind::aborted, 1, "rank 2 was killed"}));
    bool sent = false;
    std::thread launcher([&] {
        std::string heard;
        while (heard.empty()) {
            heard = ends.hear();
        }
        sent = heard == base::encode({Kind::waits, 1, ""}) &&
               ends.send(base::encode({Kind::place, 0, "RUEDA_RANK=0 RUEDA_SIZE=2 RANK=0"})) &&
               ends.send(base::encode({Kind::slots_changed, LauncherNotification::kSlotsRemoved, ""}));
    });
    const Result<base::LauncherPlace> place = line.wait_for_place();
    launcher.join();
    CHECK(sent);
    REQUIRE(place.is_ok());
    CHECK(place.value().ranks == 2);
    CHECK(place.value().variables.size() == 3);
    CHECK(line.is_about(0, 2));
    CHECK_FALSE(cause_of(line));
    CHECK(line.take_slot_changes() == LauncherNotification::kSlotsRemoved);
    CHECK(line.take_slot_changes() == 0);
    ends.say(Kind::failed, 1, "rank 1 was killed");
    CHECK(cause_of(line) == "rank 1 was killed");
}

TEST_CASE("a worker of an elastic job that gets no place is told why") {
    Ends ends;
    ends.say(Kind::elastic, 0, "");
    LauncherLine line(std::move(ends.rank), 0, 1);
    SECTION("the launcher ends the job") {
        ends.say(Kind::dismissed, 0, "too few ranks");
        CHECK(line.wait_for_place().status().message().ends_with("in the elastic job: too few ranks"));
    }
    SECTION("the launcher has ended") {
        ends.launcher.reset();
        CHECK(line.wait_for_place().status().message().find("ruedarun has ended") != std::string::npos);
    }
    SECTION("the place is damaged") {
        ends.say(Kind::place, 0, "RUEDA_RANK=0");
        CHECK(line.wait_for_place().status().code() == ErrorCode::aborted);
    }
}

TEST_CASE("all notifications are read before this rank's standing is asked for") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 0, 2);
    ends.say(Kind::ended_well, 1, "rank 1 ended");
    bool unread = true;
    const auto standing = [&] {
        std::array<char, 1> byte{};
        unread = ::recv(ends.launcher.value(), byte.data(), 1, MSG_DONTWAIT | MSG_PEEK) >= 0;
        return Standing::shutting_down;
    };
    CHECK_FALSE(line.cause(standing, base::monotonic_ns()));
    CHECK_FALSE(unread);
}

TEST_CASE("a notification in transit is awaited, and a missing one only for a short time") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 0, 3);
    const auto begin = std::chrono::steady_clock::now();
    CHECK_FALSE(line.notification_of_failure());
    const auto waited = std::chrono::steady_clock::now() - begin;
    CHECK(waited >= LauncherLine::kMoment);
    CHECK(waited < std::chrono::seconds(2));
    bool sent = false;
    std::thread launcher([&] {
        sent = ends.send(base::encode({Kind::ended_well, 1, "rank 1 ended"})) &&
               ends.send(base::encode({Kind::failed, 2, "rank 2 was killed"}));
    });
    const std::string cause = line.cause_of_death(2, kSeen, "");
    launcher.join();
    CHECK(sent);
    CHECK(cause == "rank 2 was killed");
    CHECK(line.notification_of_failure() == "rank 2 was killed");
    CHECK(line.cause_of_death(1, kSeen, "") == describe_cause({Kind::ended_well, 1, "rank 1 ended"}));
}

TEST_CASE("bytes that are no notification end the reading") {
    for (const std::string& bytes :
         {std::string("hello"), base::encode({Kind::failed, 7, "a rank that does not exist"}),
          base::encode({Kind::aborted, 1, "a rank's notification"})}) {
        Ends ends;
        LauncherLine line(std::move(ends.rank), 0, 3);
        ends.say(bytes);
        CHECK_FALSE(cause_of(line));
        const std::string good = base::encode({Kind::failed, 1, "rank 1 was killed"});
        CHECK(::send(ends.launcher.value(), good.data(), good.size(), MSG_NOSIGNAL) < 0);
        CHECK(line.cause_of_death(1, kSeen, "no memory") == kSeen);
    }
}

TEST_CASE("an abort is reported once, and another one as well") {
    Ends ends;
    LauncherLine line(std::move(ends.rank), 2, 3);
    line.report_abort("rank 1 was killed");
    line.report_abort("tensor 'a': rank 1 was killed");
    const Result<LauncherNotification> notification = base::parse_launcher_notification(ends.hear());
    REQUIRE(notification.is_ok());
    CHECK(notification.value().kind == Kind::aborted);
    CHECK(notification.value().rank == 2);
    CHECK(notification.value().text == "rank 1 was killed");
    CHECK(ends.hear().empty());
    for (int i = 0; i < 100; ++i) {
        line.report_abort(fmt::format("reason {}", i));
    }
    int heard = 0;
    while (!ends.hear().empty()) {
        ++heard;
    }
    CHECK(heard == 7);
}

TEST_CASE("without a launcher there is nothing to hear and nothing to wait for") {
    const auto line = LauncherLine::open(base::environment_of({}));
    CHECK(line->notice().empty());
    CHECK_FALSE(line->is_about(0, 1));
    CHECK_FALSE(cause_of(*line));
    const auto begin = std::chrono::steady_clock::now();
    CHECK(line->cause_of_death(1, kSeen, "") == kSeen);
    CHECK(std::chrono::steady_clock::now() - begin < LauncherLine::kMoment);
    line->report_abort("nobody listens");
}

TEST_CASE("the descriptor is taken from the environment, and programs started later do not have it") {
    Ends ends;
    const int fd = ends.rank.value();
    const auto line = LauncherLine::open(base::environment_of({{"RUEDA_LAUNCHER_FD", ends.address(1, 3)}}));
    static_cast<void>(ends.rank.release());  // `line` owns the descriptor now, so `ends` must not close it
    CHECK(line->notice().empty());
    CHECK(line->is_about(1, 3));
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    ends.say(Kind::failed, 2, "rank 2 was killed");
    CHECK(cause_of(*line) == "rank 2 was killed");
}

TEST_CASE("a descriptor that is not the launcher's is left alone, with one line") {
    Ends ends;
    Ends stream(SOCK_STREAM);
    base::UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    struct stat facts {};
    REQUIRE(::fstat(file.value(), &facts) == 0);
    const std::string closed = "987:1:0:3";
    const std::string other_inode = fmt::format("{}:1:0:3", ends.rank.value());
    const std::string no_socket = fmt::format("{}:{}:0:3", file.value(), facts.st_ino);
    for (const std::string& text : {std::string("nonsense"), closed, other_inode, no_socket, stream.address(0, 3)}) {
        CAPTURE(text);
        const auto line = LauncherLine::open(base::environment_of({{"RUEDA_LAUNCHER_FD", text}}));
        CHECK(line->notice().find('\n') == std::string::npos);
        CHECK(line->notice().starts_with("RUEDA_LAUNCHER_FD"));
        CHECK_FALSE(line->is_about(0, 3));
        CHECK_FALSE(cause_of(*line));
    }
    for (const int fd : {ends.rank.value(), stream.rank.value(), file.value()}) {
        CHECK(::fcntl(fd, F_GETFD) >= 0);  // the descriptor is still open
    }
}

}  // namespace
}  // namespace rueda::core::test
