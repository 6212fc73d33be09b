// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/find_jobs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>

#include "launcher/jobs/job_sample.hpp"
#include "launcher/top/choose_job.hpp"
#include "tests/launcher/jobs/made_arena.hpp"
#include "tests/support/child.hpp"

namespace rueda::launcher {
namespace {

std::string id_of(const MadeArena& arena) {
    struct stat status {};
    REQUIRE(stat(arena.path().c_str(), &status) == 0);
    return "j" + std::to_string(status.st_ino);
}

/// Returns the job with this id, or null. The list may contain other jobs of this machine.
const Job* find(const JobList& list, const std::string& id) {
    const auto job = std::find_if(list.jobs.begin(), list.jobs.end(), [&id](const Job& j) { return j.id == id; });
    return job != list.jobs.end() ? &*job : nullptr;
}

const UnreadableJob* find_unreadable(const JobList& list, const std::string& id) {
    const auto job =
        std::find_if(list.unreadable.begin(), list.unreadable.end(), [&id](const auto& j) { return j.id == id; });
    return job != list.unreadable.end() ? &*job : nullptr;
}

TEST_CASE("a job is found through the open files of its ranks") {
    const MadeArena made(2);
    // No rank of this arena has a process yet. Such an arena belongs to a process set, or to a job that is starting.
    CHECK(find(find_jobs(), id_of(made)) == nullptr);
    const tests::Child child;  // the child inherits the open file
    made.fill(0, child.pid(), 7);
    made.fill(1, getpid(), 3);
    made.control().ranks[0].step.store(12);
    made.control().ranks[1].busy.write("load\x1b[2J");
    const JobList list = find_jobs();
    const Job* const job = find(list, id_of(made));
    REQUIRE(job != nullptr);
    CHECK(job->holders.size() == 2);
    const JobSample sample = take_sample(*job);
    CHECK(sample.state() == JobState::running);
    REQUIRE(sample.ranks.size() == 2);
    CHECK(sample.ranks[0].rank == 3);
    CHECK(sample.ranks[0].member == 1);
    CHECK(sample.ranks[0].pid == getpid());
    CHECK(sample.ranks[0].scope == "load?[2J");
    CHECK(sample.ranks[1].pid == child.pid());
    CHECK(sample.ranks[1].step == 12);
    REQUIRE(sample.ranks[0].process);
    CHECK(sample.ranks[0].process->resident_bytes > 0);
    // /proc/self/cmdline is a second source for the name of this program.
    std::ifstream file("/proc/self/cmdline");
    std::string program;
    std::getline(file, program, '\0');
    CHECK_THAT(sample.program, Catch::StartsWith(program));
    CHECK(sample.age_seconds() >= 0);
    CHECK(sample.age_seconds() < 3600);
}

TEST_CASE("a rank that was killed has no process, and neither has its number when another process gets it") {
    const MadeArena made(1);
    tests::Child child;
    made.fill(0, child.pid(), 0);
    const JobList list = find_jobs();
    const Job* const job = find(list, id_of(made));
    REQUIRE(job != nullptr);
    CHECK(take_sample(*job).has_processes());
    SECTION("killed") {
        child.kill_without_reaping();
        CHECK_FALSE(take_sample(*job).has_processes());
        CHECK(take_sample(*job).state() == JobState::ended);
    }
    SECTION("another process") {
        made.control().ranks[0].process_start.fetch_sub(1);
        CHECK_FALSE(take_sample(*job).has_processes());
    }
}

TEST_CASE("a process that joins later is found again") {
    const MadeArena made(2);
    made.fill(0, getpid(), 0);
    JobList list = find_jobs();
    Result<Job> job = choose_job(std::move(list), id_of(made));
    REQUIRE(job.is_ok());
    const tests::Child child;
    made.fill(1, child.pid(), 1);
    CHECK(take_sample(job.value()).ranks[1].pid == 0);
    find_holders_again(job.value());
    CHECK(take_sample(job.value()).ranks[1].pid == child.pid());
    CHECK(take_sample(job.value()).ranks[0].pid == getpid());
}

TEST_CASE("an aborted job has a reason, and a job that shuts down has that state") {
    const MadeArena made(1);
    made.fill(0, getpid(), 0);
    const JobList list = find_jobs();
    const Job* const job = find(list, id_of(made));
    REQUIRE(job != nullptr);
    made.control().ranks[0].state.store(static_cast<std::uint32_t>(base::RankState::shutting_down));
    CHECK(take_sample(*job).state() == JobState::shutting_down);
    REQUIRE(made.control().abort.raise(ErrorCode::aborted, "rank 1 was killed\n"));
    const JobSample sample = take_sample(*job);
    CHECK(sample.state() == JobState::aborted);
    CHECK(sample.abort_reason == "rank 1 was killed?");
}

TEST_CASE("memory of another version, and damaged memory, is listed once") {
    const MadeArena made(1);
    const MadeArena of_its_process_set(1);
    for (const MadeArena* arena : {&made, &of_its_process_set}) {
        arena->fill(0, getpid(), 0);
        arena->control().layout_version = 2;
    }
    JobList list = find_jobs();
    CHECK(find(list, id_of(made)) == nullptr);
    const auto& unreadable = list.unreadable;
    CHECK(std::count_if(unreadable.begin(), unreadable.end(),
                        [](const UnreadableJob& job) { return job.pids == std::vector<std::int32_t>{getpid()}; }) == 1);
    const UnreadableJob* const first = find_unreadable(list, id_of(made));
    const UnreadableJob* const second = find_unreadable(list, id_of(of_its_process_set));
    REQUIRE((first != nullptr) != (second != nullptr));
    CHECK_THAT((first != nullptr ? first : second)->problem, Catch::Contains("layout version 2"));
    const Status refused = choose_job(std::move(list), std::to_string(getpid())).status();
    CHECK_THAT(refused.message(), Catch::Contains("layout version 2"));
}

TEST_CASE("the user names a job by its id or by a process") {
    const MadeArena one(1);
    const MadeArena other(1);
    const tests::Child child;
    one.fill(0, getpid(), 0);
    other.fill(0, getpid(), 0);
    CHECK(choose_job(find_jobs(), id_of(other)).value().id == id_of(other));
    CHECK_THAT(choose_job(find_jobs(), std::to_string(child.pid())).value().id, Catch::StartsWith("j"));
    CHECK_THAT(choose_job(find_jobs(), "").status().message(),
               Catch::Contains("several jobs") && Catch::Contains(id_of(one)) && Catch::Contains(id_of(other)));
    for (const char* wanted : {"j", "j0", "1x", "-1", "999999999999"}) {
        CHECK_THAT(choose_job(find_jobs(), wanted).status().message(), Catch::Contains("there is no job"));
    }
    CHECK_THAT(choose_job(JobList{}, "").status().message(), Catch::Contains("no job of Rueda"));
    CHECK_THAT(choose_job(JobList{}, "j1").status().message(), Catch::Contains("no job of Rueda"));
}

TEST_CASE("the number of a process in its own container is found") {
    CHECK(parse_inner_pid("Name:\tcat\nNSpid:\t4711\t12\nVmPeak:\t 1 kB\n") == 12);
    CHECK(parse_inner_pid("Name:\tcat\nNSpid:\t4711\n") == 4711);
    for (const char* text : {"", "Name:\tNSpid:\t5\n", "Name:\tx\nNSpid:\t\n", "Name:\tx\nNSpid:\t5 x\n"}) {
        CHECK(parse_inner_pid(text) == 0);
    }
}

}  // namespace
}  // namespace rueda::launcher
