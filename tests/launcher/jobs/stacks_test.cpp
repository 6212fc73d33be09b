// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "base/system/clock.hpp"
#include "launcher/stacks/stacks_text.hpp"
#include "launcher/stacks/take_stacks.hpp"
#include "tests/launcher/jobs/made_arena.hpp"
#include "tests/support/child.hpp"

namespace rueda::launcher {
namespace {

Job job_of(const MadeArena& made) {
    JobList list = find_jobs();
    struct stat status {};
    REQUIRE(stat(made.path().c_str(), &status) == 0);
    const auto job = std::find_if(list.jobs.begin(), list.jobs.end(), [&status](const Job& candidate) {
        return candidate.id == "j" + std::to_string(status.st_ino);
    });
    REQUIRE(job != list.jobs.end());
    return std::move(*job);
}

void offer(const MadeArena& made, std::uint32_t member, base::StackOffer offer) {
    made.control().stack_of(member).offer.store(static_cast<std::uint32_t>(offer));
}

TEST_CASE("the ranks of a job are asked through its memory") {
    const MadeArena made(4);
    const tests::Child child;
    tests::Child killed;
    made.fill(0, getpid(), 6);
    made.fill(1, child.pid(), 5);
    made.fill(2, killed.pid(), 7);
    made.fill(3, getpid(), 8);
    // Rank 6 seems to answer at once, because its counter of answers is higher than the number of every request. Rank
    // 5's background thread does not run. Rank 7 is killed. Rank 8 refuses to answer.
    offer(made, 0, base::StackOffer::offered);
    made.control().ranks[0].heartbeat_ns.store(base::monotonic_ns());
    made.control().stack_of(0).answered.store(100);
    made.control().stack_of(0).text.write("native, innermost first:\n  f\x1b, a.cpp:1");
    offer(made, 1, base::StackOffer::offered);
    made.control().ranks[1].heartbeat_ns.store(1);
    offer(made, 3, base::StackOffer::refused);
    made.control().stack_of(3).text.write("stack: it could not be taken: the program handles SIGUSR2 itself");
    const Job job = job_of(made);
    killed.kill_and_reap();

    const Result<JobStacks> stacks = take_stacks(job);
    REQUIRE(stacks.is_ok());
    REQUIRE(stacks.value().texts.size() == 4);
    CHECK_FALSE(stacks.value().are_complete());
    CHECK_THAT(stacks.value().texts[0],
               Catch::StartsWith("stack: it could not be read: the rank's background thread does not run"));
    CHECK(stacks.value().texts[1] == "native, innermost first:\n  f?, a.cpp:1");
    CHECK(stacks.value().texts[2] == "stack: the process does not exist any more");
    CHECK(stacks.value().texts[3] == "stack: it could not be taken: the program handles SIGUSR2 itself");
    CHECK(made.control().stack_of(0).asked.load() == 1);
    CHECK(made.control().stack_of(1).asked.load() == 0);
    CHECK(made.control().stack_of(3).asked.load() == 0);
}

TEST_CASE("a job whose memory is gone cannot be asked") {
    const MadeArena made(1);
    made.fill(0, getpid(), 0);
    Job job = job_of(made);
    job.path = "/nonexistent";
    CHECK(take_stacks(job).status().code() == ErrorCode::not_initialized);
}

JobStacks example() {
    JobStacks stacks;
    stacks.job.id = "j17";
    stacks.job.program = "python train.py";
    RankSample first;
    first.rank = 2;
    first.pid = 4711;
    first.state = base::RankState::running;
    first.step = 9;
    first.scope = "saving";
    first.process = ProcessSample{'S', 0, 0, 0};
    RankSample second;
    second.member = 1;
    second.rank = 3;
    stacks.job.ranks = {first, second};
    stacks.texts = {"native, innermost first:\n  f, a.cpp:1", "stack: the process does not exist any more"};
    return stacks;
}

TEST_CASE("stacks as text") {
    JobStacks stacks = example();
    CHECK(describe_stacks(stacks) ==
          "j17  running  python train.py\n"
          "\n"
          "rank 2 (pid 4711): sleeping; in step 9; in scope 'saving'\n"
          "  native, innermost first:\n"
          "    f, a.cpp:1\n"
          "\n"
          "rank 3: gone\n"
          "  stack: the process does not exist any more\n");
    stacks.job.was_aborted = true;
    stacks.job.abort_reason = "rank 3 was killed";
    CHECK_THAT(describe_stacks(stacks),
               Catch::StartsWith("j17  aborted  python train.py\naborted: rank 3 was killed\n\nrank 2"));
}

TEST_CASE("stacks as JSON") {
    const auto json = nlohmann::json::parse(stacks_as_json(example()));
    CHECK(json["id"] == "j17");
    CHECK(json["program"] == "python train.py");
    CHECK(json["state"] == "running");
    CHECK(json["abort_reason"].is_null());
    REQUIRE(json["ranks"].size() == 2);
    CHECK(json["ranks"][0] == nlohmann::json{{"rank", 2},
                                             {"pid", 4711},
                                             {"process", "sleeping"},
                                             {"step", 9},
                                             {"scope", "saving"},
                                             {"has_stack", true},
                                             {"stack", "native, innermost first:\n  f, a.cpp:1"}});
    CHECK(json["ranks"][1]["pid"].is_null());
    CHECK(json["ranks"][1]["step"].is_null());
    CHECK(json["ranks"][1]["process"] == "gone");
    CHECK(json["ranks"][1]["has_stack"] == false);
}

}  // namespace
}  // namespace rueda::launcher
