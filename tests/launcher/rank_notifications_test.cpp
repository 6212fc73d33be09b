// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// When a rank ends, the launcher notifies the other ranks in some cases, but not in all. Tests in which cases it does
// so.
#include "launcher/watch/rank_notifications.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

#include "base/launcher_notification.hpp"

namespace rueda::launcher {
namespace {

using Kind = base::LauncherNotification::Kind;

// Makes wait statuses like the kernel (wait(2)): the exit status is in the second byte, and a signal in the first byte.
RankEnd exited(int rank, int status) { return {rank, 100 + rank, status << 8, "", false}; }
RankEnd killed(int rank, int signal_number) { return {rank, 100 + rank, signal_number, "", false}; }

base::LauncherNotification parsed(const RankNotifications::Item& item) {
    return base::parse_launcher_notification(item.notification).value();
}

std::vector<int> ranks_of(const std::vector<RankNotifications::Item>& items) {
    std::vector<int> ranks;
    for (const RankNotifications::Item& item : items) {
        ranks.push_back(item.rank);
    }
    return ranks;
}

TEST_CASE("a notification has ruedarun's own line about the end", "[unit]") {
    RankNotifications notifications;
    RankEnd far = killed(3, SIGKILL);
    far.host = "b";
    const std::vector<RankNotifications::Item> items = notifications.note({far});
    REQUIRE(items.size() == 1);
    CHECK(items[0].rank == 3);
    CHECK(parsed(items[0]).kind == Kind::failed);
    CHECK(parsed(items[0]).rank == 3);
    CHECK(parsed(items[0]).text == "rank 3 on b (pid 103) was killed by signal 9 (Killed)");
    CHECK(parsed(notifications.note({exited(1, 0)})[0]).kind == Kind::ended_well);
    CHECK(parsed(notifications.note({exited(2, 1)})[0]).kind == Kind::failed);
    CHECK(ranks_of(notifications.so_far()) == std::vector<int>{3, 1, 2});
}

TEST_CASE("if a rank ends well after an abort, the notification has the reason of the abort", "[unit]") {
    RankEnd told = exited(1, 0);
    told.abort_reason = "host b (rank 2) has not answered for 3.0 s";
    RankNotifications notifications;
    const auto items = notifications.note({exited(0, 0), told});
    CHECK(ranks_of(items) == std::vector<int>{1, 0});
    CHECK(parsed(items[0]).kind == Kind::failed);
    CHECK(parsed(items[0]).text == "host b (rank 2) has not answered for 3.0 s");
    CHECK(parsed(items[1]).kind == Kind::ended_well);
}

TEST_CASE("if several ends are seen together, the likely cause comes first", "[unit]") {
    RankEnd echo = exited(4, 1);
    echo.abort_reason = "rank 2 was killed";
    RankEnd by_mpirun = killed(5, SIGTERM);
    by_mpirun.by_launcher = true;
    RankNotifications notifications;
    const auto told = notifications.note({exited(0, 0), echo, by_mpirun, exited(1, 3), killed(2, SIGSEGV)});
    CHECK(ranks_of(told) == std::vector<int>{2, 1, 4, 5, 0});
    CHECK(parsed(told[2]).text == "rank 2 was killed");
}

TEST_CASE("the end of a large job does not cause a flood of notifications", "[unit]") {
    RankNotifications notifications;
    std::size_t well = 0;
    for (int rank = 0; rank < 1000; ++rank) {
        well += notifications.note({exited(rank, 0)}).size();
    }
    CHECK(well == RankNotifications::kMostOfAKind);
    // The number of reports is limited for each kind of end separately, so a failure is still reported after a thousand
    // successes.
    CHECK(ranks_of(notifications.note({killed(1000, SIGKILL)})) == std::vector<int>{1000});
    CHECK(notifications.so_far().size() == RankNotifications::kMostOfAKind + 1);
    CHECK(notifications.note({exited(kLauncherRank, 1)}).empty());
}

}  // namespace
}  // namespace rueda::launcher
