// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/job_table.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/jobs/columns.hpp"

namespace rueda::launcher {
namespace {

RankSample rank(std::int32_t number, std::int32_t pid, std::int64_t step) {
    RankSample sample;
    sample.rank = number;
    sample.pid = pid;
    sample.step = step;
    sample.state = base::RankState::running;
    sample.process = ProcessSample{'S', 1.5, 133, 4096};
    return sample;
}

JobSample job(const std::string& id, std::vector<RankSample> ranks) {
    JobSample sample;
    sample.id = id;
    sample.program = "python3 train.py";
    sample.ranks = std::move(ranks);
    return sample;
}

TEST_CASE("the table of jobs") {
    JobSample aborted = job("j9", {rank(4, 71, -1)});
    aborted.was_aborted = true;
    aborted.abort_reason = "rank 3 was killed by SIGKILL";
    const std::vector<JobSample> jobs = {job("j1034", {rank(0, 50, 117), rank(1, 51, 118), rank(2, 52, 118)}), aborted};
    const std::vector<UnreadableJob> unreadable = {{"j8", {5, 6}, "it has layout version 2"}};
    CHECK(describe_jobs(jobs, unreadable) ==
          "JOB    RANKS  PIDS      STEP    AGE  PROGRAM           STATE\n"
          "j1034  0-2    50-52  117-118  2m13s  python3 train.py  running\n"
          "j9     4      71           -  2m13s  python3 train.py  aborted: rank 3 was killed by SIGKILL\n"
          "j8 (process 5,6) cannot be shown: it has layout version 2\n");
    const std::vector<JobSample> threads = {job("j1", {rank(0, 50, 1), rank(1, 50, 1)})};
    CHECK_THAT(describe_jobs(threads, {}), Catch::Contains("\nj1   0,1    50       1 "));
    const std::vector<JobSample> unordered = {
        job("j1", {rank(0, 54, 1), rank(1, 50, 1), rank(2, 51, 1), rank(3, 52, 1), rank(4, 49, 1)})};
    CHECK_THAT(describe_jobs(unordered, {}), Catch::Contains("\nj1   0-4    54,50-52,49     1 "));
    CHECK(nlohmann::json::parse(jobs_as_json(unordered, {}))["jobs"][0]["pids"] ==
          std::vector<int>{54, 50, 51, 52, 49});
    CHECK(describe_jobs({}, {}) == "No job of Rueda that belongs to you runs on this host.\n");
}

TEST_CASE("the jobs in JSON") {
    JobSample ended = job("j2", {rank(0, 0, -1)});
    ended.ranks[0].process.reset();
    const std::vector<JobSample> jobs = {job("j1", {rank(0, 50, 118), rank(1, 51, 117)}), ended};
    const auto document = nlohmann::json::parse(jobs_as_json(jobs, std::vector<UnreadableJob>{{"j3", {5}, "why"}}));
    const auto& first = document["jobs"][0];
    CHECK(first["id"] == "j1");
    CHECK(first["ranks"] == std::vector<int>{0, 1});
    CHECK(first["pids"] == std::vector<int>{50, 51});
    CHECK(first["step"] == 117);  // "step" is the step of the rank that is furthest behind
    CHECK(first["age_seconds"] == 133.0);
    CHECK(first["state"] == "running");
    CHECK(first["abort_reason"].is_null());
    CHECK(document["jobs"][1]["state"] == "ended");
    CHECK(document["jobs"][1]["pids"].empty());
    CHECK(document["jobs"][1]["step"].is_null());
    CHECK(document["unreadable"][0]["problem"] == "why");
}

TEST_CASE("numbers and ages are short") {
    CHECK(format_numbers({}) == "-");
    CHECK(format_numbers({3}) == "3");
    CHECK(format_numbers({5, 0, 1, 2, 3, 8, 9}) == "0-3,5,8,9");
    CHECK(format_numbers({2, 2}) == "2,2");
    CHECK(format_age(-1) == "0s");
    CHECK(format_age(59.9) == "59s");
    CHECK(format_age(133) == "2m13s");
    CHECK(format_age(2 * 3600 + 3 * 60 + 4) == "2h03m");
    CHECK(format_age(49 * 3600 + 1) == "2d01h");
}

TEST_CASE("columns are as wide as their characters") {
    CHECK(columns_of("größe…") == 6);
    CHECK(cut_to_columns("größe…", 3) == "grö");
    CHECK(cut_to_columns("ab", 0).empty());
    CHECK(cut_to_columns("ab", 5) == "ab");
    CHECK(wrap_to_columns("größe und", 5) == std::vector<std::string>{"größe", "und"});
    CHECK(wrap_to_columns("größe und", 4) == std::vector<std::string>{"größ", "e", "und"});
    CHECK(wrap_to_columns("one two three", 8) == std::vector<std::string>{"one two", "three"});
    CHECK(wrap_to_columns("one two", 0) == std::vector<std::string>{"one two"});
    CHECK(wrap_to_columns("", 3) == std::vector<std::string>{""});
    CHECK(lay_out({{"A"}, {"B", true}, {"C"}}, {{"ö", "1", "x"}, {"ab", "123", ""}}) ==
          std::vector<std::string>{"A     B  C", "ö     1  x", "ab  123  "});
}

}  // namespace
}  // namespace rueda::launcher
