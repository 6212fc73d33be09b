// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the launcher computes one exit status from the ends of all ranks, and which signals it sends to running
// ranks.
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

#include "launcher/watch/job_ending.hpp"
#include "launcher/watch/rank_end.hpp"

namespace rueda::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Makes wait statuses like the kernel (wait(2)): the exit status is in the second byte, and a signal in the first byte.
RankEnd exited(int rank, int status) { return {rank, 100 + rank, status << 8, "", false}; }
RankEnd killed(int rank, int signal_number) { return {rank, 100 + rank, signal_number, "", false}; }

TEST_CASE("each end gets a line that names it", "[unit]") {
    CHECK(describe(killed(1, SIGKILL)) == "rank 1 (pid 101) was killed by signal 9 (Killed)");
    CHECK(describe(exited(0, 3)) == "rank 0 (pid 100) ended with exit status 3");
    CHECK(describe(not_started(2, "./x", ENOEXEC)) ==
          "rank 2 could not be started: './x': Exec format error (errno 8)");
    CHECK(describe(exited(kLauncherRank, 1)) == "mpirun (pid 99) ended with exit status 1 before the job was over");
    // The wait status has the signal and the bit for "core dumped". The exit status is 128 + SIGSEGV.
    CHECK(exit_status_of({0, 1, SIGSEGV | 0x80, "", false}) == 139);
    CHECK(exit_status_of(not_started(0, "")) == 127);
}

TEST_CASE("the first failure is the cause", "[unit]") {
    JobOutcome outcome;
    CHECK(outcome.exit_status() == 0);
    outcome.add({exited(2, 0)});
    CHECK(outcome.exit_status() == 0);
    CHECK_FALSE(outcome.cause());
    outcome.add({exited(3, 4), exited(1, 5)});
    CHECK(outcome.exit_status() == 4);
    outcome.add({killed(0, SIGKILL)});
    CHECK(outcome.exit_status() == 4);
    CHECK(outcome.cause()->rank == 3);
}

TEST_CASE("if several failures are seen together, a killed rank is the cause", "[unit]") {
    JobOutcome outcome;
    outcome.add({exited(0, 1), killed(1, SIGKILL), killed(2, SIGTERM)});
    CHECK(outcome.cause()->rank == 1);
    CHECK(outcome.exit_status() == 137);
}

TEST_CASE("an interrupted job", "[unit]") {
    JobOutcome all_well;
    all_well.interrupt(SIGTERM);
    all_well.add({exited(0, 0), exited(1, 0)});
    CHECK(all_well.exit_status() == 0);
    JobOutcome ended;
    ended.interrupt(SIGINT);
    ended.interrupt(SIGTERM);
    ended.add({exited(0, 1), killed(1, SIGKILL)});
    CHECK(ended.exit_status() == 130);
    JobOutcome failed_before;
    failed_before.add({exited(1, 9)});
    failed_before.interrupt(SIGINT);
    failed_before.add({killed(0, SIGINT)});
    CHECK(failed_before.exit_status() == 9);
}

TEST_CASE("an mpirun that exits early has failed, even with status 0", "[unit]") {
    JobOutcome outcome;
    outcome.add({exited(kLauncherRank, 0)});
    CHECK(outcome.exit_status() == 1);
}

TEST_CASE("a rank that mpirun ended is the cause only if no better cause comes", "[unit]") {
    RankEnd echo = killed(0, SIGTERM);
    echo.by_launcher = true;
    JobOutcome explained;
    explained.add({echo});
    CHECK(explained.is_unsettled());
    CHECK_FALSE(explained.cause());
    explained.add({exited(1, 7)});
    CHECK_FALSE(explained.is_unsettled());
    CHECK(explained.exit_status() == 7);
    JobOutcome unexplained;
    unexplained.add({echo});
    unexplained.add({exited(2, 0)});
    unexplained.settle();
    CHECK(unexplained.exit_status() == 143);
    CHECK(unexplained.cause()->rank == 0);
    JobOutcome together;
    together.add({echo, exited(kLauncherRank, 7)});
    CHECK(together.exit_status() == 7);
    JobOutcome well;
    well.settle();
    CHECK(well.exit_status() == 0);
}

RankEnd echo_of(RankEnd end, const std::string& reason) {
    end.abort_reason = reason;
    return end;
}

TEST_CASE("a rank that ended because of an abort is not the cause, however early it is seen", "[unit]") {
    JobOutcome later;
    later.add({echo_of(exited(0, 1), "rank 1 was killed"), echo_of(killed(2, SIGABRT), "rank 1 was killed")});
    CHECK(later.is_unsettled());
    CHECK(later.has_only_echoes_of_abort());
    later.add({killed(1, SIGKILL)});
    CHECK_FALSE(later.is_unsettled());
    CHECK(later.cause()->rank == 1);
    CHECK(later.exit_status() == 137);
    JobOutcome together;
    together.add({echo_of(killed(2, SIGABRT), "rank 1 ended"), exited(1, 3)});
    CHECK(together.cause()->rank == 1);
    JobOutcome before;
    before.add({exited(1, 3)});
    before.add({echo_of(exited(0, 1), "rank 1 ended")});
    CHECK(before.cause()->rank == 1);
}

RankEnd lost(int rank) {
    RankEnd end = killed(rank, SIGKILL);
    end.host = "b";
    end.lost = true;
    return end;
}

TEST_CASE("a rank that is lost after others have reported why the job was aborted is not the cause", "[unit]") {
    JobOutcome outcome;
    outcome.add({echo_of(exited(0, 1), "host b has not answered")});
    outcome.add({lost(2), lost(3)});
    CHECK(outcome.has_only_echoes_of_abort());
    outcome.settle();
    CHECK(describe(*outcome.cause()) ==
          "rank 0 (pid 100) ended with exit status 1, after the job was aborted: host b has not answered");
    CHECK(outcome.exit_status() == 1);
    JobOutcome first;
    first.add({lost(2)});
    first.add({echo_of(exited(0, 1), "rank 2 on b (pid 102) is lost")});
    CHECK(first.cause()->rank == 2);
    CHECK(first.exit_status() == 137);
}

TEST_CASE("a rank that ended with status 0 and made the others abort is the cause", "[unit]") {
    JobOutcome outcome;
    outcome.add({exited(1, 0), exited(3, 0)});
    outcome.add(
        {echo_of(exited(0, 1), "rank 3 (pid 103) ended with exit status 0, while the others had not shut down")});
    CHECK(outcome.is_unsettled());
    outcome.settle();
    CHECK(describe(*outcome.cause()) ==
          "rank 3 (pid 103) ended with exit status 0 without having called rueda::shutdown()");
    CHECK(outcome.exit_status() == 1);
    CHECK(outcome.is_worth_another_try());
}

TEST_CASE("if all ranks ended because of an abort, the reason of the abort is the cause", "[unit]") {
    JobOutcome outcome;
    RankEnd by_mpirun = killed(3, SIGTERM);
    by_mpirun.by_launcher = true;
    outcome.add({by_mpirun});
    CHECK_FALSE(outcome.has_only_echoes_of_abort());
    outcome.add({echo_of(exited(0, 1), "host b has not answered"), echo_of(exited(2, 1), "something else")});
    CHECK(outcome.has_only_echoes_of_abort());
    outcome.settle();
    CHECK(describe(*outcome.cause()) ==
          "rank 0 (pid 100) ended with exit status 1, after the job was aborted: host b has not answered");
    CHECK(outcome.exit_status() == 1);
    CHECK(outcome.is_worth_another_try());
}

TEST_CASE("a job that a stall ended has a status of its own", "[unit]") {
    const std::string reason =
        "tensor 'w' has waited for rank 1 for 121 s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (120); ready: rank 0; "
        "the job is ended";
    JobOutcome outcome;
    outcome.add({echo_of(exited(0, 1), reason), echo_of(killed(1, SIGABRT), reason)});
    outcome.settle();
    CHECK(outcome.exit_status() == 79);
    CHECK(outcome.is_worth_another_try());
    // If a rank fails by itself, this rank is the cause, whatever the other ranks waited for.
    JobOutcome failed;
    failed.add({echo_of(exited(0, 1), reason)});
    failed.add({exited(1, 3)});
    failed.settle();
    CHECK(failed.exit_status() == 3);
    JobOutcome other;
    other.add({echo_of(exited(0, 5), "RUEDA_STALL_SHUTDOWN_TIME_SECONDS is too short")});
    other.settle();
    CHECK(other.exit_status() == 5);
}

TEST_CASE("after a failure: grace, SIGTERM, SIGKILL, giving up", "[unit]") {
    const JobEnding::TimePoint start{};
    JobEnding ending(milliseconds(300), milliseconds(200));
    CHECK_FALSE(ending.deadline());
    CHECK_FALSE(ending.advance(start + seconds(1000)));
    ending.rank_failed(start);
    ending.rank_failed(start + milliseconds(200));  // a second failure does not restart the grace period
    CHECK(ending.deadline() == start + milliseconds(300));
    CHECK_FALSE(ending.advance(start + milliseconds(299)));
    CHECK(ending.advance(start + milliseconds(300)) == SIGTERM);
    const auto terminated = start + milliseconds(300);
    CHECK_FALSE(ending.advance(terminated + JobEnding::kTerminateTime - milliseconds(1)));
    const auto killed_at = terminated + JobEnding::kTerminateTime;
    CHECK(ending.advance(killed_at) == SIGKILL);
    CHECK_FALSE(ending.gave_up());
    CHECK_FALSE(ending.advance(killed_at + JobEnding::kKillTime));
    CHECK(ending.gave_up());
    CHECK_FALSE(ending.deadline());
}

TEST_CASE("the grace after an abort has a length of its own", "[unit]") {
    const JobEnding::TimePoint start{};
    JobEnding ending(milliseconds(300), milliseconds(200));
    ending.job_aborted(start);
    ending.job_aborted(start + milliseconds(100));  // a second report does not restart the grace period
    CHECK(ending.deadline() == start + milliseconds(200));
    CHECK(ending.advance(start + milliseconds(200)) == SIGTERM);
    ending.rank_failed(start + milliseconds(201));  // this failure comes too late: the ranks have already got SIGTERM
    CHECK(ending.deadline() == start + milliseconds(200) + JobEnding::kTerminateTime);
}

TEST_CASE("the grace after a failure does not depend on the order of the reports", "[unit]") {
    const JobEnding::TimePoint start{};
    JobEnding failure_first(milliseconds(300), milliseconds(200));
    failure_first.rank_failed(start);
    failure_first.job_aborted(start + milliseconds(100));
    CHECK(failure_first.deadline() == start + milliseconds(300));
    JobEnding echo_first(milliseconds(300), milliseconds(200));
    echo_first.job_aborted(start);
    echo_first.rank_failed(start + milliseconds(100));
    CHECK(echo_first.deadline() == start + milliseconds(300));
    CHECK_FALSE(echo_first.advance(start + milliseconds(200)));
}

TEST_CASE("the user's first signal is passed on, and the second kills", "[unit]") {
    const JobEnding::TimePoint start{};
    JobEnding once(seconds(5), seconds(3));
    CHECK(once.user_signal(SIGINT, start) == SIGINT);
    CHECK_FALSE(once.advance(start + JobEnding::kInterruptTime - milliseconds(1)));
    CHECK(once.advance(start + JobEnding::kInterruptTime) == SIGKILL);
    JobEnding twice(seconds(5), seconds(3));
    CHECK(twice.user_signal(SIGTERM, start) == SIGTERM);
    twice.rank_failed(start);
    CHECK(twice.user_signal(SIGINT, start + milliseconds(1)) == SIGKILL);
    JobEnding during_grace(seconds(5), seconds(3));
    during_grace.rank_failed(start);
    CHECK(during_grace.user_signal(SIGINT, start) == SIGINT);
    CHECK(during_grace.deadline() == start + JobEnding::kInterruptTime);
}

}  // namespace
}  // namespace rueda::launcher
