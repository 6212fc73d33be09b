// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/activity/time_outside.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace rueda::launcher {
namespace {

using base::RecordedOperation;

/// Returns twenty looks (samples of what a rank does) at 25, 75, …, 975 ns. In the first `sleeping` looks the rank
/// sleeps outside of Rueda.
std::vector<Look> looks(int sleeping, Activity others) {
    std::vector<Look> made;
    for (int index = 0; index < 20; ++index) {
        made.push_back({25 + 50 * index, index < sleeping ? Activity::sleeps_outside : others});
    }
    return made;
}

RecordedOperation record(std::uint64_t number, std::uint8_t kind, std::int64_t announced_ns,
                         std::optional<std::int64_t> ended_ns) {
    RecordedOperation made;
    made.number = number;
    made.kind = kind;
    made.announced_ns = announced_ns;
    made.ended_ns = ended_ns;
    return made;
}

constexpr std::uint8_t kAllreduce = 0;

TEST_CASE("without operations, the looks are the parts of the time") {
    auto all = looks(6, Activity::runs_outside);
    all[18].activity = all[19].activity = Activity::threads_run_outside;
    all[17].activity = Activity::in_scope;
    const auto found = find_time_outside({}, all, 0, 1000);
    REQUIRE(found);
    CHECK(found->sleeps == Approx(0.30));
    CHECK(found->runs == Approx(0.55));
    CHECK(found->threads_run == Approx(0.10));
}

TEST_CASE("the records say exactly how long the rank was outside") {
    // The first operation begins at 100 ns and ends at 300 ns. The second one begins at 200 ns and ends at 500 ns. The
    // third one begins at 900 ns and does not end. So the rank is in Rueda for 500 of 1000 ns. The record of a step (at
    // 50 ns) has no duration.
    const std::vector<RecordedOperation> operations = {record(0, base::RecordKind::kStep, 50, {}),
                                                       record(1, kAllreduce, 100, 300), record(2, kAllreduce, 200, 500),
                                                       record(3, kAllreduce, 900, {})};
    // The records say that the rank was outside of Rueda for half of the time. Of the twenty looks (samples of what the
    // rank does), eight were outside, and six of these eight found the rank asleep. So it slept for 0.5 * 6 / 8 of the
    // time.
    auto all = looks(6, Activity::in_rueda);
    all[18].activity = all[19].activity = Activity::runs_outside;
    const auto found = find_time_outside(operations, all, 0, 1000);
    REQUIRE(found);
    CHECK(found->sleeps == Approx(0.375));
    CHECK(found->runs == Approx(0.125));
    CHECK(found->threads_run == 0);
}

TEST_CASE("a scope that was declared when it was over counts as declared") {
    // From 0 to 250 ns the rank was in a declared scope, so the samples at 25, 75, 125, 175 and 225 ns do not count.
    const std::vector<RecordedOperation> operations = {record(0, base::RecordKind::kScope, -100, 250)};
    const auto found = find_time_outside(operations, looks(10, Activity::runs_outside), 0, 1000);
    REQUIRE(found);
    CHECK(found->sleeps == Approx(0.25));  // 750 of 1000 ns, and 5 of 15 looks
    CHECK(found->runs == Approx(0.5));
}

TEST_CASE("if the recorder has lost the beginning, the rest of the interval is judged") {
    SECTION("it begins with an operation") {
        // In the recorded time, from 600 to 1000 ns, the rank was in an operation for half of the time.
        const std::vector<RecordedOperation> operations = {record(5000, kAllreduce, 600, 800)};
        CHECK(find_time_outside(operations, looks(20, Activity::in_rueda), 0, 1000)->sleeps == Approx(0.5));
    }
    SECTION("it begins with a scope, which was recorded when it ended") {
        const std::vector<RecordedOperation> operations = {record(5000, base::RecordKind::kScope, 100, 600),
                                                           record(5001, kAllreduce, 600, 900)};
        // From 600 to 1000 ns the rank was outside of Rueda for 100 ns. Only samples outside of the scope (100 to 600
        // ns) count.
        CHECK(find_time_outside(operations, looks(20, Activity::in_rueda), 0, 1000)->sleeps == Approx(0.25));
    }
    SECTION("it has nothing of the interval") {
        const std::vector<RecordedOperation> operations = {record(5000, kAllreduce, 1000, 1001)};
        CHECK(find_time_outside(operations, looks(20, Activity::in_rueda), 0, 1000)->sleeps == 0);
    }
}

TEST_CASE("nothing is said after few looks, and 0 if no look was outside") {
    std::vector<Look> all = looks(20, Activity::in_rueda);
    all.resize(9);
    CHECK_FALSE(find_time_outside({}, all, 0, 1000));
    CHECK(find_time_outside({}, looks(0, Activity::in_rueda), 0, 1000)->sleeps == 0);
    CHECK(find_time_outside({}, looks(20, Activity::in_rueda), 1000, 1000)->sleeps == 0);
}

}  // namespace
}  // namespace rueda::launcher
