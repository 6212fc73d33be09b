// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/batch_watch.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>

#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Two ranks, both in this process.
struct Job {
    Members set{{.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8}};
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();

    Job() {
        for (std::uint32_t member = 0; member < 2; ++member) {
            control->ranks[member].pid.store(getpid());
            control->ranks[member].global_rank.store(static_cast<std::int32_t>(member));
        }
    }
    [[nodiscard]] BatchWatch watch(std::uint32_t own) const {
        base::Config config;
        config.stall_warning_seconds = 10;
        return {StallSettings(config), *control, set.memory(), own};
    }
    void beat(std::uint32_t member, std::int64_t at_ns) const { control->ranks[member].heartbeat_ns.store(at_ns); }
    void call(std::uint32_t slot) const {
        static_cast<void>(Log<base::StdAtomics>(set.memory()).append({EntryKind::call, slot}));
    }
    void finish(std::uint32_t member) { set.catch_up(member); }
};

TEST_CASE("a call that stays undone is reported, and again with growing intervals") {
    Job job;
    BatchWatch watch = job.watch(0);
    CHECK_FALSE(watch.tick(1 * kSecond));  // no operation is called
    job.call(2);
    job.beat(0, 2 * kSecond);
    job.beat(1, 2 * kSecond);
    CHECK_FALSE(watch.tick(2 * kSecond));
    CHECK_FALSE(watch.tick(11 * kSecond));
    job.beat(0, 12 * kSecond);  // rank 1 has been silent since 2 s
    const auto report = watch.tick(12 * kSecond);
    REQUIRE(report);
    CHECK_THAT(*report,
               Catch::StartsWith("an unnamed tensor was announced by all ranks 10 seconds ago and is still not "
                                 "done: a rank does not get on with it"));
    CHECK_THAT(*report, Catch::Contains("rank 1 (pid " + std::to_string(getpid()) + "): ") &&
                            Catch::Contains(", has not responded for 10 s"));
    CHECK_FALSE(watch.tick(31 * kSecond));
    job.beat(0, 32 * kSecond);
    CHECK(watch.tick(32 * kSecond));
}

TEST_CASE("a batch that gets done is not reported, and the lowest rank that waits and responds reports") {
    Job job;
    BatchWatch lower = job.watch(0);
    BatchWatch upper = job.watch(1);
    job.call(2);
    job.beat(0, 1 * kSecond);
    job.beat(1, 1 * kSecond);
    CHECK_FALSE(lower.tick(1 * kSecond));
    CHECK_FALSE(upper.tick(1 * kSecond));
    job.beat(0, 11 * kSecond);
    job.beat(1, 11 * kSecond);
    CHECK_FALSE(upper.tick(11 * kSecond));  // rank 0 reports it
    job.beat(1, 40 * kSecond);              // rank 0 does not respond any more
    CHECK(upper.tick(40 * kSecond));
    job.beat(0, 140 * kSecond);
    job.beat(1, 140 * kSecond);
    CHECK_FALSE(upper.tick(140 * kSecond));  // rank 0 responds again
    job.finish(0);
    CHECK_FALSE(lower.tick(400 * kSecond));  // this rank has finished, so rank 0 has nothing to report
    job.beat(0, 600 * kSecond);
    job.beat(1, 600 * kSecond);
    CHECK(upper.tick(600 * kSecond));
    job.finish(1);
    CHECK_FALSE(upper.tick(2000 * kSecond));
}

}  // namespace
}  // namespace rueda::core::test
