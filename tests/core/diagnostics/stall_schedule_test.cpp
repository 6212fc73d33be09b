// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_schedule.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace rueda::core {
namespace {

PendingTensor tensor(std::uint32_t slot, std::int64_t since_ns) {
    return {.id = {slot, 1, 1}, .name = "t", .call = 0, .since_ns = since_ns, .ready_mask = 1};
}

/// Asks the schedule at each time in [0, end), and returns the times at which a report is due. `pending_at(now)`
/// returns the tensors that are pending at that time.
template <class F>
std::vector<std::int64_t> report_times(StallSchedule& schedule, std::int64_t end, F&& pending_at) {
    std::vector<std::int64_t> times;
    for (std::int64_t now = 0; now < end; ++now) {
        const std::vector<PendingTensor> pending = pending_at(now);
        if (schedule.look(pending, now).report) {
            times.push_back(now);
        }
    }
    return times;
}

TEST_CASE("one stalled tensor is reported after the warning time and then after 1, 2, 4, … of it") {
    StallSchedule schedule(60, 0);
    const std::vector<PendingTensor> pending = {tensor(9, 10)};
    CHECK(report_times(schedule, 1100, [&](std::int64_t) { return pending; }) ==
          std::vector<std::int64_t>{70, 130, 250, 490, 970});
}

TEST_CASE("short stalls are not reported") {
    StallSchedule schedule(60, 0);
    CHECK(report_times(schedule, 600, [](std::int64_t now) {
              // Every 59 units of time, a new generation (use of the slot) begins. The tensor's waiting time then
              // starts again, each time one unit before a report would be due.
              return std::vector{tensor(9, now - now % 59)};
          }).empty());
    CHECK(report_times(schedule, 600, [](std::int64_t) { return std::vector<PendingTensor>{}; }).empty());
}

TEST_CASE("tensors that stall at the same time share a report") {
    StallSchedule schedule(60, 0);
    const std::vector<PendingTensor> pending = {tensor(5, 0), tensor(6, 0), tensor(7, 0)};
    CHECK(report_times(schedule, 200, [&](std::int64_t) { return pending; }) == std::vector<std::int64_t>{60, 120});
}

TEST_CASE("a tensor that joins is reported a warning time after the last report, and the intervals begin anew") {
    StallSchedule schedule(60, 0);
    const auto pending_at = [](std::int64_t now) {
        std::vector<PendingTensor> pending = {tensor(5, 0)};
        if (now >= 70) {
            pending.push_back(tensor(6, 70));
        }
        if (now >= 200) {
            pending.push_back(tensor(7, 200));
        }
        return pending;
    };
    // Tensor 5 is reported at 60 and 120, and would next be reported at 240. But tensor 6 stalls at 130, so both are
    // reported at 180. The next interval is 60 again, so there is a report at 240. Tensor 7 stalls at 260, so all three
    // are reported at 300. The interval is 60 once more, so the next report is at 360.
    CHECK(report_times(schedule, 450, pending_at) == std::vector<std::int64_t>{60, 120, 180, 240, 300, 360});
}

TEST_CASE("after a stall has ended, the next one is reported at once when its time has come") {
    StallSchedule schedule(60, 0);
    const auto pending_at = [](std::int64_t now) {
        return now < 100 ? std::vector{tensor(5, 0)} : std::vector{tensor(5, 100)};
    };
    CHECK(report_times(schedule, 230, pending_at) == std::vector<std::int64_t>{60, 160, 220});
}

TEST_CASE("the same slot in a later generation is another tensor") {
    StallSchedule schedule(60, 0);
    PendingTensor other = tensor(5, 61);
    other.id.generation = 2;
    CHECK(schedule.look(std::vector{tensor(5, 0)}, 60).report);
    CHECK_FALSE(schedule.look(std::vector{other}, 119).report);
    CHECK(schedule.look(std::vector{other}, 121).report);
}

TEST_CASE("the job is to be ended at the shutdown time, once, with the report that explains it") {
    StallSchedule schedule(60, 60);
    const std::vector<PendingTensor> pending = {tensor(5, 0), tensor(6, 30)};
    CHECK_FALSE(schedule.look(pending, 59).shut_down_for);
    const auto due = schedule.look(pending, 60);
    CHECK(due.report);
    REQUIRE(due.shut_down_for);
    CHECK(due.shut_down_for->id == PendingTensor::Id{5, 1, 1});
    CHECK_FALSE(schedule.look(pending, 61).shut_down_for);
}

/// The test calls the schedule every 2 units of time. The schedule looks at the arena only at the times that it has
/// chosen.
TEST_CASE("the shutdown comes at its time, however seldom the arena is looked at") {
    for (const std::int64_t shutdown : {60, 61, 90, 97, 119, 120, 121, 300}) {
        StallSchedule schedule(60, shutdown);
        const std::vector<PendingTensor> pending = {tensor(5, 7)};
        std::int64_t next_look = 0;
        std::int64_t ended = 0;
        int looks = 0;
        for (std::int64_t now = 0; now < 400 && ended == 0; now += 2) {
            if (now < next_look || now < 7) {
                continue;
            }
            ++looks;
            ended = schedule.look(pending, now).shut_down_for ? now : 0;
            next_look = schedule.next_look_ns(pending, now, 10);
        }
        CAPTURE(shutdown);
        CHECK(ended >= 7 + shutdown);
        CHECK(ended <= 7 + shutdown + 1);
        CHECK(looks <= shutdown / 10 + 2);
    }
}

TEST_CASE("without a time to end the job, or after it, the next look is an interval away") {
    const std::vector<PendingTensor> pending = {tensor(5, 0)};
    CHECK(StallSchedule(60, 0).next_look_ns(pending, 50, 10) == 60);
    StallSchedule schedule(60, 65);
    CHECK(schedule.next_look_ns({}, 60, 10) == 70);
    CHECK(schedule.next_look_ns(pending, 60, 10) == 65);
    REQUIRE(schedule.look(pending, 65).shut_down_for);
    CHECK(schedule.next_look_ns(pending, 65, 10) == 75);
}

TEST_CASE("a shutdown time of 0 never comes") {
    StallSchedule schedule(60, 0);
    for (std::int64_t now = 0; now < 100000; now += 50) {
        REQUIRE_FALSE(schedule.look(std::vector{tensor(5, 0)}, now).shut_down_for);
    }
}

}  // namespace
}  // namespace rueda::core
