// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks/thread_control_plane.hpp"

#include <catch2/catch.hpp>

#include "collectives/single_control_plane.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using namespace std::chrono_literals;

TEST_CASE("a single process gets back what it gave", "[unit]") {
    SingleControlPlane plane;
    CHECK(tests::exercise(plane, 0, 1, 1000) == "ok");
    CHECK(plane.broadcast({}, 1).status().code() == ErrorCode::invalid_argument);
}

TEST_CASE("ranks that are threads exchange messages", "[threads]") {
    for (int size = 1; size <= 8; ++size) {
        const auto planes = make_thread_control_planes(size);
        const auto ends = tests::run_threads(
            size, [&](int rank) { return tests::exercise(*planes[static_cast<std::size_t>(rank)], rank, size, 5000); });
        CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(size), "ok"));
    }
}

TEST_CASE("many rounds do not mix", "[threads]") {
    const auto planes = make_thread_control_planes(3);
    const auto ends = tests::run_threads(3, [&](int rank) -> std::string {
        for (int round = 0; round < 500; ++round) {
            auto all = planes[static_cast<std::size_t>(rank)]->allgather(tests::pattern(8, rank * 1000 + round));
            for (int r = 0; r < 3; ++r) {
                if (!all.is_ok() || all.value()[static_cast<std::size_t>(r)] != tests::pattern(8, r * 1000 + round)) {
                    return fmt::format("round {}", round);
                }
            }
        }
        return "ok";
    });
    CHECK(ends == std::vector<std::string>(3, "ok"));
}

TEST_CASE("a rank that stays away is named to the others", "[threads]") {
    const auto planes = make_thread_control_planes(4, 500ms);
    const auto ends = tests::run_threads(4, [&](int rank) {
        return rank == 1 || rank == 3 ? std::string() : outcome(planes[static_cast<std::size_t>(rank)]->barrier());
    });
    CHECK(ends[0] == "Timeout: barrier: rank 1, 3 did not come within 0.5 s");
    CHECK(ends[2] == ends[0]);
    CHECK(outcome(planes[1]->barrier()) == ends[0]);
}

TEST_CASE("a rank that leaves ends the waits of the others", "[threads]") {
    auto planes = make_thread_control_planes(3);
    const auto ends = tests::run_threads(3, [&](int rank) {
        auto& plane = planes[static_cast<std::size_t>(rank)];
        if (!plane->barrier().is_ok()) {
            return std::string("no barrier");
        }
        if (rank == 1) {
            plane.reset();
            return std::string();
        }
        return outcome(plane->barrier());
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Aborted: ") && Catch::Contains("rank 1 has left the job"));
    CHECK(ends[2] == ends[0]);
}

TEST_CASE("the hub can be aborted from outside", "[threads]") {
    const auto planes = make_thread_control_planes(3);
    const auto ends = tests::run_threads(3, [&](int rank) {
        if (rank == 2) {
            abort_thread_control_planes(*planes[2], "the test wants it");
        }
        return outcome(planes[static_cast<std::size_t>(rank)]->barrier());
    });
    CHECK(ends == std::vector<std::string>(3, "Aborted: the test wants it"));
}

TEST_CASE("ranks in different operations fail together", "[threads]") {
    const auto planes = make_thread_control_planes(2);
    const auto ends = tests::run_threads(2, [&](int rank) {
        return rank == 0 ? outcome(planes[0]->barrier()) : outcome(planes[1]->allgather({}).status());
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Internal: ") && Catch::Contains("barrier") && Catch::Contains("allgather"));
    CHECK(ends[1] == ends[0]);
}

}  // namespace
}  // namespace rueda::collectives
