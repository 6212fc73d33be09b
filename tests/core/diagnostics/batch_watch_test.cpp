// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/batch_watch.hpp"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/negotiation/device_state.hpp"
#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// A job of two ranks. This process plays both of them.
struct Job {
    Members set{{.members = 2, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8}};
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();
    std::array<std::uint64_t, 2> moved{};
    std::vector<std::int32_t> elsewhere;
    double shutdown_seconds = 0;
    /// The ranks whose stacks the watch asked for, in each call of `add_stacks`. Only every second call returns true
    /// ("all stacks have come").
    mutable std::vector<std::vector<std::int32_t>> asked;

    Job() {
        for (std::uint32_t member = 0; member < 2; ++member) {
            control->ranks[member].pid.store(getpid());
            control->ranks[member].global_rank.store(static_cast<std::int32_t>(member));
        }
    }
    [[nodiscard]] BatchWatch watch(std::uint32_t own) const {
        base::Config config;
        config.stall_warning_seconds = 10;
        config.stall_shutdown_seconds = shutdown_seconds;
        return {StallSettings(config), *control, set.memory(), own,
                [this](std::uint32_t member) { return moved[member]; }};
    }
    /// The source asks the stall monitor what the ranks are doing.
    [[nodiscard]] BatchWatch::Source source(std::int64_t now_ns) const {
        return {[this, now_ns] {
                    return StallMonitor(StallSettings(base::Config()), *control, 0, set.memory())
                        .account(now_ns)
                        .missing_ranks;
                },
                [this] { return elsewhere; }};
    }
    [[nodiscard]] BatchWatch::Source source_with_stacks(std::int64_t now_ns) const {
        BatchWatch::Source source = this->source(now_ns);
        source.add_stacks = [this](std::span<StallReport::Rank> ranks) {
            std::vector<std::int32_t>& now = asked.emplace_back();
            for (StallReport::Rank& rank : ranks) {
                now.push_back(rank.rank);
                rank.stack = "native:\n  f" + std::to_string(rank.rank);
            }
            return asked.size() % 2 == 0;
        };
        return source;
    }
    [[nodiscard]] std::optional<StallMonitor::Finding> look(BatchWatch& watch, std::int64_t now_ns) const {
        return watch.tick(now_ns, source(now_ns));
    }
    void beat(std::uint32_t member, std::int64_t at_ns) const { control->ranks[member].heartbeat_ns.store(at_ns); }
    void call(std::uint32_t slot) const {
        static_cast<void>(Log<base::StdAtomics>(set.memory()).append({EntryKind::call, slot}));
    }
    void finish(std::uint32_t member) { set.catch_up(member); }
};

TEST_CASE("a call that is not executed is reported, and reported again after longer and longer intervals") {
    Job job;
    BatchWatch watch = job.watch(0);
    CHECK_FALSE(job.look(watch, 1 * kSecond));  // no batch is under way
    job.call(2);
    job.beat(0, 2 * kSecond);
    job.beat(1, 2 * kSecond);
    CHECK_FALSE(job.look(watch, 2 * kSecond));
    CHECK_FALSE(job.look(watch, 11 * kSecond));
    job.beat(0, 12 * kSecond);  // rank 1 has been silent since 2 s
    const auto finding = job.look(watch, 12 * kSecond);
    REQUIRE(finding);
    const std::string* const report = &finding->text;
    CHECK_THAT(*report, Catch::StartsWith("the 3rd unnamed operation of this process set was announced by all ranks 10 "
                                          "seconds ago and is still not done: a rank makes no progress"));
    CHECK_THAT(*report, Catch::Contains("rank 1 (pid " + std::to_string(getpid()) + "): ") &&
                            Catch::Contains("; has not responded for 10 s"));
    CHECK_THAT(*report, Catch::Contains("; done: no rank; not done: ranks 0, 1\n"));
    CHECK_FALSE(job.look(watch, 31 * kSecond));
    job.beat(0, 32 * kSecond);
    CHECK(job.look(watch, 32 * kSecond));
}

TEST_CASE("the rank that has done less is the cause, and without such a rank another host is") {
    Job job;
    BatchWatch watch = job.watch(0);
    job.call(2);
    job.moved = {12, 9};
    CHECK_FALSE(job.look(watch, 1 * kSecond));
    job.beat(0, 11 * kSecond);
    job.beat(1, 11 * kSecond);
    const auto behind = job.look(watch, 11 * kSecond);
    REQUIRE(behind);
    REQUIRE(behind->report);
    CHECK(behind->report->executing);
    REQUIRE(behind->report->missing_ranks.size() == 2);
    CHECK(behind->report->missing_ranks.front().steps_behind == 0);
    CHECK(behind->report->missing_ranks.back().steps_behind == 3);
    CHECK_THAT(behind->text, Catch::Contains("\n  Probable cause: rank 1 has not delivered its part: 3 steps behind"));
    job.moved = {12, 12};
    job.elsewhere = {2, 3};
    job.beat(0, 100 * kSecond);
    job.beat(1, 100 * kSecond);
    const auto other = job.look(watch, 100 * kSecond);
    REQUIRE(other);
    CHECK_THAT(other->text, Catch::Contains("\n  Probable cause: no rank of this host holds up the operation; another "
                                            "host has not delivered its part (ranks 2, 3)"));
    // Rank 1 has done as many steps as rank 0. Nevertheless, rank 1 may be the cause, because it no longer responds. So
    // the watch names no probable cause.
    job.beat(0, 1000 * kSecond);
    const auto silent = job.look(watch, 1000 * kSecond);
    REQUIRE(silent);
    CHECK_THAT(silent->text, !Catch::Contains("Probable cause"));
    job.finish(0);
    job.finish(1);
}

TEST_CASE("the report has the stacks of the ranks that are behind, and comes when they are there") {
    Job job;
    BatchWatch watch = job.watch(0);
    job.call(2);
    job.moved = {12, 9};
    const auto look = [&](std::int64_t seconds) {
        job.beat(0, seconds * kSecond);
        job.beat(1, seconds * kSecond);
        return watch.tick(seconds * kSecond, job.source_with_stacks(seconds * kSecond));
    };
    CHECK_FALSE(look(1));
    CHECK_FALSE(look(11));  // the watch asks rank 1 for its stack, which has not come yet
    const auto behind = look(12);
    REQUIRE(behind);
    CHECK(job.asked == std::vector<std::vector<std::int32_t>>{{1}, {1}});
    REQUIRE(behind->report->missing_ranks.size() == 2);
    CHECK(behind->report->missing_ranks.front().rank == 0);
    CHECK(behind->report->missing_ranks.front().stack.empty());
    CHECK(behind->report->missing_ranks.back().stack == "native:\n  f1");
    CHECK_THAT(behind->text, Catch::Contains("\n    native:\n      f1"));

    job.moved = {12, 12};  // no rank is behind, so any of them may be the cause
    CHECK_FALSE(look(100));
    REQUIRE(look(101));
    CHECK(job.asked.back() == std::vector<std::int32_t>{0, 1});
    job.elsewhere = {2};  // another host is the cause
    CHECK_FALSE(look(1000));
    REQUIRE(look(1001));
    CHECK(job.asked.back().empty());

    CHECK_FALSE(look(10'000));
    job.finish(0);
    job.finish(1);
    CHECK(job.asked.size() == 7);
    CHECK_FALSE(look(10'001));  // the batch is done, so the watch withdraws its question for the ranks' stacks
    CHECK(job.asked.size() == 8);
    CHECK(job.asked.back().empty());
}

TEST_CASE("the report names the part of a chunk that a rank has not delivered") {
    Job job;
    BatchWatch watch = job.watch(0);
    job.call(2);
    std::array<BatchWatch::Counts, 2> counts{};
    std::optional<collectives::BatchChunks> chunks;
    const auto look = [&](std::int64_t seconds) {
        job.beat(0, seconds * kSecond);
        job.beat(1, seconds * kSecond);
        BatchWatch::Source source = job.source(seconds * kSecond);
        source.counts = [&](std::uint32_t member) { return counts[member]; };
        source.chunks = [&](std::uint64_t position) {
            CHECK(position == 0);
            return chunks;
        };
        return watch.tick(seconds * kSecond, source);
    };
    const auto part = [&](const std::optional<StallMonitor::Finding>& finding) {
        REQUIRE(finding);
        REQUIRE(finding->report->missing_ranks.size() == 2);
        CHECK_FALSE(finding->report->missing_ranks.front().part);
        const auto& of_last = finding->report->missing_ranks.back().part;
        return of_last ? name_of(*of_last) : "";
    };
    counts = {{{.staged = 127, .reduced = 125}, {.staged = 125, .reduced = 124}}};
    job.moved = {4, 1};
    CHECK_FALSE(look(1));
    CHECK(part(look(11)).empty());  // the chunks are not known, so the report does not name a part
    chunks = collectives::BatchChunks{.first = 105, .count = 64};
    const auto input = look(40);
    CHECK(part(input) == "its input of chunk 21 of 64");
    CHECK_THAT(
        input->text,
        Catch::Contains("\n  Probable cause: rank 1 has not delivered its input of chunk 21 of 64: 3 steps behind") &&
            Catch::Contains("behind the rank that has done most; has not delivered its input of chunk 21 of 64; "));
    counts[1].staged = 127;
    CHECK(part(look(200)) == "its share of chunk 20 of 64");
    counts[1].reduced = 125;
    CHECK(part(look(1000)).empty());
    // The next count comes from another batch. The text must not contain a chunk number that is computed from this
    // count.
    counts[1].reduced = 7;
    CHECK(part(look(5000)).empty());
    counts[0].resident = 3;
    CHECK(part(look(20'000)) == "its share of the tensors in resident memory");
}

/// A job whose ranks are asked whether they take turns.
struct AskedJob : Job {
    TurnQuestions::Answers answers{.are_complete = false};
    std::vector<std::uint64_t> asked_for_turns;  ///< the members that the watch asked, in each call

    [[nodiscard]] std::optional<StallMonitor::Finding> look(BatchWatch& watch, std::int64_t seconds) {
        beat(0, seconds * kSecond);
        beat(1, seconds * kSecond);
        BatchWatch::Source source = source_with_stacks(seconds * kSecond);
        source.turns = [this](std::uint64_t members) {
            asked_for_turns.push_back(members);
            return answers;
        };
        return watch.tick(seconds * kSecond, source);
    }
};

TEST_CASE("the rank that takes no turns is the cause, even if another rank has done less") {
    AskedJob job;
    BatchWatch watch = job.watch(0);
    job.call(2);
    job.moved = {9, 12};
    CHECK_FALSE(job.look(watch, 1));
    CHECK_FALSE(job.look(watch, 11));
    CHECK(job.asked.empty());  // the watch asks for stacks when it knows whose stack it needs
    job.answers.are_complete = true;
    job.answers.takes_turns = {true, false};
    CHECK_FALSE(job.look(watch, 12));
    const auto stuck = job.look(watch, 13);
    REQUIRE(stuck);
    CHECK(job.asked == std::vector<std::vector<std::int32_t>>{{1}, {1}});
    CHECK(job.asked_for_turns == std::vector<std::uint64_t>{0b11, 0b11, 0b11, 0});  // the last call ends the round
    CHECK(stuck->report->missing_ranks.front().takes_turns == true);
    CHECK(stuck->report->missing_ranks.back().takes_turns == false);
    CHECK_THAT(stuck->text, Catch::Contains("\n  Probable cause: rank 1 has not delivered its part: the thread that "
                                            "executes the operation does not respond\n"));

    // All ranks take turns. So another host holds up the operation, although rank 0 has done less than rank 1.
    job.elsewhere = {2, 3};
    job.answers.takes_turns = {true, true};
    CHECK_FALSE(job.look(watch, 100));
    const auto waits = job.look(watch, 101);
    REQUIRE(waits);
    CHECK(job.asked.back().empty());
    CHECK_THAT(waits->text, Catch::Contains("\n  Probable cause: no rank of this host holds up the operation; another "
                                            "host has not delivered its part (ranks 2, 3)\n"));

    // The answers show nothing if there is no other host. Then the ranks' steps are compared.
    job.elsewhere = {};
    CHECK_FALSE(job.look(watch, 1000));
    const auto alone = job.look(watch, 1001);
    REQUIRE(alone);
    CHECK_THAT(alone->text, Catch::Contains("\n  Probable cause: rank 0 has not delivered its part: 3 steps behind"));

    // Rank 0 has finished the batch, so it is not asked.
    job.finish(0);
    BatchWatch upper = job.watch(1);
    CHECK_FALSE(job.look(upper, 2000));
    CHECK_FALSE(job.look(upper, 2010));
    CHECK(job.asked_for_turns.back() == 0b10);
}

TEST_CASE("a rank whose tensors are in the memory of a GPU must take turns only while it uses the memory of the CPU") {
    AskedJob job;
    BatchWatch watch = job.watch(0);
    job.call(2);
    const auto set_phase = [&job](std::uint32_t member, DeviceState::Phase phase) {
        job.set.memory().cursor(member).device.store(DeviceState{.phase = phase, .device = 0}.word());
    };
    set_phase(0, DeviceState::Phase::launching);  // perhaps in a call of NCCL that waits for rank 1
    set_phase(1, DeviceState::Phase::on_cpu);
    job.answers = {.are_complete = true, .takes_turns = {false, false}};
    CHECK_FALSE(job.look(watch, 1));
    CHECK_FALSE(job.look(watch, 11));  // waits for the stacks
    const auto found = job.look(watch, 12);
    REQUIRE(found);
    REQUIRE(found->report->missing_ranks.size() == 2);
    CHECK_FALSE(found->report->missing_ranks.front().takes_turns);
    CHECK(found->report->missing_ranks.back().takes_turns == false);
    CHECK_THAT(found->text, Catch::Contains("\n  Probable cause: rank 1 has not delivered its part: the thread that "
                                            "executes the operation does not respond\n"));
}

TEST_CASE("the reason for the end of the job names the rank that takes no turns") {
    AskedJob job;
    job.shutdown_seconds = 30;
    BatchWatch watch = job.watch(0);
    job.call(2);
    job.moved = {9, 12};
    CHECK_FALSE(job.look(watch, 1));
    CHECK_FALSE(job.look(watch, 2));
    job.answers.are_complete = true;
    CHECK_FALSE(job.look(watch, 11));  // waits for the stacks
    CHECK(job.look(watch, 12));
    job.asked_for_turns.clear();
    CHECK_FALSE(job.look(watch, 29));
    CHECK(job.asked_for_turns.empty());
    job.answers = {.are_complete = false, .takes_turns = {}};
    CHECK_FALSE(job.look(watch, 30));  // asks in time
    CHECK(job.asked_for_turns == std::vector<std::uint64_t>{0b11});
    job.moved = {10, 12};  // rank 0 goes on, so the job is not ended yet
    CHECK_FALSE(job.look(watch, 31));
    CHECK(job.asked_for_turns.back() == 0);
    job.answers.takes_turns = {true, false};
    const auto end = job.look(watch, 61);  // the answers are not complete, but the end does not wait for them
    REQUIRE(end);
    CHECK(end->shut_down);
    CHECK_THAT(end->text, Catch::Contains("; rank 1 has not delivered its part: the thread that executes the operation "
                                          "does not respond; the job is ended"));
}

TEST_CASE("a report does not wait for stacks when the job is about to end") {
    Job job;
    job.shutdown_seconds = 10;
    BatchWatch watch = job.watch(0);
    job.call(2);
    const auto look = [&](std::int64_t seconds) {
        job.beat(0, seconds * kSecond);
        job.beat(1, seconds * kSecond);
        return watch.tick(seconds * kSecond, job.source_with_stacks(seconds * kSecond));
    };
    CHECK_FALSE(look(1));
    const auto end = look(11);
    REQUIRE(end);
    CHECK(end->shut_down);
    CHECK(job.asked.size() == 2);  // two calls: one requested stacks, and the other withdrew this request
}

TEST_CASE("a batch in which nothing moves for the shutdown time ends the job") {
    Job job;
    job.shutdown_seconds = 30;
    BatchWatch watch = job.watch(0);
    job.call(2);
    const auto look = [&](std::int64_t seconds) {
        job.beat(0, seconds * kSecond);
        job.beat(1, seconds * kSecond);
        return job.look(watch, seconds * kSecond);
    };
    CHECK_FALSE(look(1));
    // rank 0 makes one step in each second, so the batch counts as moving
    for (std::int64_t now = 2; now <= 100; ++now) {
        job.moved[0] += 1;
        const auto found = look(now);
        CHECK_FALSE((found && found->shut_down));
    }
    job.moved[1] = 98;  // rank 1 is one step behind rank 0, which has made 99 steps
    CHECK_FALSE(look(101));
    for (std::int64_t now = 102; now < 131; ++now) {
        const auto found = look(now);
        CHECK_FALSE((found && found->shut_down));
    }
    const auto end = look(131);
    REQUIRE(end);
    CHECK(end->shut_down);
    CHECK(
        end->text ==
        "the 3rd unnamed operation of this process set was announced by all ranks and is not done after 130 s, more "
        "than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (30); not done: ranks 0, 1; rank 1 has not delivered its part: 1 step "
        "behind the rank that has done most; the job is ended");
    CHECK(end->ends_job == end->text);
    CHECK_THAT(end->report_before, Catch::StartsWith("the 3rd unnamed operation"));
    REQUIRE(end->report);
}

TEST_CASE("a batch that gets done is not reported, and the lowest rank that waits and responds reports") {
    Job job;
    BatchWatch lower = job.watch(0);
    BatchWatch upper = job.watch(1);
    job.call(2);
    job.beat(0, 1 * kSecond);
    job.beat(1, 1 * kSecond);
    CHECK_FALSE(job.look(lower, 1 * kSecond));
    CHECK_FALSE(job.look(upper, 1 * kSecond));
    job.beat(0, 11 * kSecond);
    job.beat(1, 11 * kSecond);
    CHECK_FALSE(job.look(upper, 11 * kSecond));  // only the lowest rank, rank 0, reports
    // Rank 0 does not respond any more, so rank 1 reports.
    job.beat(1, 40 * kSecond);
    CHECK(job.look(upper, 40 * kSecond));
    job.beat(0, 140 * kSecond);
    job.beat(1, 140 * kSecond);
    CHECK_FALSE(job.look(upper, 140 * kSecond));  // rank 0 responds again
    job.finish(0);
    CHECK_FALSE(job.look(lower, 400 * kSecond));  // rank 0 has finished the batch, so it reports nothing
    job.beat(0, 600 * kSecond);
    job.beat(1, 600 * kSecond);
    CHECK(job.look(upper, 600 * kSecond));
    job.finish(1);
    CHECK_FALSE(job.look(upper, 2000 * kSecond));
}

}  // namespace
}  // namespace rueda::core::test
