// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/job_summary.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace rueda::training {
namespace {

/// Four ranks on two hosts. Rank 1 is late: the other ranks were blocked for 40 of 80 s, and rank 1 for 2 s.
JobReport four_ranks() {
    return {.ranks = {{"a", 80.0, 100, 3200, 40.0, 0.25},
                      {"a", 79.5, 100, 3200, 2.0, 30.0},
                      {"b", 79.0, 100, 3200, 41.0, 0.5},
                      {"b", 79.0, 99, 3168, 39.0, 0.75}}};
}

TEST_CASE("the numbers of a job", "[unit]") {
    const JobReport report = four_ranks();
    CHECK(report.seconds() == 80.0);
    CHECK(report.steps() == 100);
    CHECK(report.samples() == 12768);
    CHECK(report.samples_per_second() == 12768 / 80.0);
    CHECK(report.awaited_rank() == 1);
    CHECK(report.text() ==
          "job: 80.0 s on 4 ranks, 100 steps, 12768 samples, 159.6 samples/s\n"
          "communication: the ranks were blocked for 2.0 s (rank 1 on a) to 41.0 s (rank 2 on b), median 39.5 s; they "
          "waited for rank 1 on a\n"
          "data: the ranks waited for 0.2 s (rank 0 on a) to 30.0 s (rank 1 on a), median 0.6 s");
}

TEST_CASE("the same numbers as JSON", "[unit]") {
    JobReport report = four_ranks();
    report.has_checkpoints = true;
    report.checkpoint = {.step = 90, .age = 1.5, .folder = "runs/save-3-step-90"};
    report.checkpoint_failure = "no space";
    const auto json = nlohmann::json::parse(report.json());
    CHECK(json.at("ranks") == 4);
    CHECK(json.at("hosts_by_rank") == std::vector<std::string>{"a", "a", "b", "b"});
    CHECK(json.at("samples_per_second") == 12768 / 80.0);
    CHECK(json.at("communication").at("least") == nlohmann::json{{"rank", 1}, {"seconds", 2.0}});
    CHECK(json.at("communication").at("most") == nlohmann::json{{"rank", 2}, {"seconds", 41.0}});
    CHECK(json.at("communication").at("median_seconds") == 39.5);
    CHECK(json.at("data").at("seconds_by_rank") == std::vector<double>{0.25, 30.0, 0.5, 0.75});
    CHECK(json.at("awaited_rank") == 1);
    CHECK(json.at("checkpoint") ==
          nlohmann::json{{"step", 90}, {"age_seconds", 1.5}, {"folder", "runs/save-3-step-90"}});
    CHECK(json.at("checkpoint_failure") == "no space");

    const JobReport alone{.ranks = {{"a", 2.0, 1, 5, 0.0, 0.5}}};
    const auto of_one = nlohmann::json::parse(alone.json());
    CHECK(of_one.at("awaited_rank").is_null());
    CHECK(of_one.at("checkpoint").is_null());
    CHECK(of_one.at("checkpoint_failure").is_null());
    CHECK(alone.text() == "job: 2.0 s on 1 rank, 1 step, 5 samples, 2.5 samples/s\ndata: the rank waited for 0.5 s");
}

TEST_CASE("a rank is awaited only if the other ranks were blocked long, and it was not", "[unit]") {
    const auto awaited = [](std::vector<double> blocked, double seconds = 100) {
        JobReport report;
        for (const double each : blocked) {
            report.ranks.push_back({.host = "a", .seconds = seconds, .in_communication = each});
        }
        return report.awaited_rank();
    };
    CHECK_FALSE(awaited({50}));
    CHECK(awaited({50, 10}) == 1);
    CHECK(awaited({12.5, 50}) == 0);
    CHECK_FALSE(awaited({13, 50}));      // no rank is awaited: 13 s is too long for an awaited rank
    CHECK_FALSE(awaited({9.9, 0}));      // a short wait
    CHECK_FALSE(awaited({50, 50, 50}));  // all of them moved data
    CHECK(awaited({0.5, 0.1}, 1.0) == 1);
    CHECK_FALSE(awaited({0.5, 0.1}, 0.99));  // a job that lasts less than a second has no awaited rank
}

TEST_CASE("what the summary says about checkpoints", "[unit]") {
    JobReport report{.ranks = {{"a", 2.0, 1, 5, 0.0, 0.5}}, .has_checkpoints = true};
    const auto last_line = [&report] {
        const std::string text = report.text();
        return text.substr(text.rfind('\n') + 1);
    };
    CHECK(last_line() == "checkpoints: none was saved");
    report.checkpoint_failure = "the disk is full";
    CHECK(last_line() == "checkpoints: none was saved; the last save failed: the disk is full");
    report.checkpoint_failure = "the last one is unknown: no permission";
    CHECK(last_line() == "checkpoints: the last one is unknown: no permission");
    report.checkpoint = {.step = 7, .age = 3.25, .folder = "f"};
    report.checkpoint_failure.clear();
    CHECK(last_line() == "checkpoints: the last one is of step 7, saved 3.2 s before the end: f");
}

}  // namespace
}  // namespace rueda::training
