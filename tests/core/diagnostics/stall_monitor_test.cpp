// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_monitor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <vector>

#include "base/system/process_status.hpp"
#include "core/diagnostics/awaited_message.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "tests/core/negotiation/members.hpp"
#include "tests/support/child.hpp"

namespace rueda::core::test {
namespace {

using base::RankState;

constexpr std::int64_t kSecond = 1'000'000'000;

std::string sentence(const std::string& seconds) {
    return "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
           "waiting for remainder of ranks for more than " +
           seconds +
           " seconds. This may indicate that different ranks are trying to submit different tensors or that only "
           "subset "
           "of ranks is submitting tensors, which will cause deadlock.";
}

/// A job of three ranks with a simulated clock. This process plays all three ranks unless a test sets another pid.
struct Job {
    Members set{{.members = 3, .unnamed_slots = 4, .initial_slots = 8, .slots = 16, .mailbox_records = 8}};
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();

    Job() {
        for (std::uint32_t member = 0; member < 3; ++member) {
            control->ranks[member].pid.store(getpid());
            control->ranks[member].global_rank.store(static_cast<std::int32_t>(member));
            control->ranks[member].state.store(static_cast<std::uint32_t>(RankState::running));
        }
    }
    [[nodiscard]] StallMonitor monitor(std::uint32_t own, double warning = 60, double shutdown = 0) const {
        base::Config config;
        config.stall_warning_seconds = warning;
        config.stall_shutdown_seconds = shutdown;
        return {StallSettings(config), *control, own, set.memory()};
    }
    void beat(std::uint32_t member, std::int64_t at_ns) const { control->ranks[member].heartbeat_ns.store(at_ns); }
    void beat_all(std::int64_t at_ns) const {
        for (std::uint32_t member = 0; member < 3; ++member) {
            beat(member, at_ns);
        }
    }
    [[nodiscard]] std::string pid() const { return fmt::format(" (pid {})", getpid()); }
};

/// Publishes, as MessageWatch does, that `member` waits for a message of `peer`. The other ranks can read this.
void wait_for_message(const Job& job, std::uint32_t member, std::int32_t peer, std::int64_t since_ns, bool is_late) {
    StallReport::Tensor message;
    message.name = peer < 0 ? "receive from any rank, tag 5" : fmt::format("receive from rank {}, tag 5", peer);
    message.message = {.sends = false, .peer = peer, .from_all = peer < 0, .is_late = is_late};
    publish_awaited_message(job.control->ranks[member], &message, since_ns);
}

TEST_CASE("a message that a rank waits for is reported by the lowest rank, like a tensor") {
    Job job;
    StallMonitor first = job.monitor(0);
    StallMonitor second = job.monitor(1);
    first.report_messages();
    second.report_messages();
    job.control->ranks[2].busy.write("evaluating");
    wait_for_message(job, 1, 2, 100 * kSecond, false);
    job.beat_all(161 * kSecond);
    CHECK_FALSE(first.tick(161 * kSecond));  // rank 1, which waits, has not yet noticed that the message is late
    CHECK(first.longest_wait(161 * kSecond) == 0);
    wait_for_message(job, 1, 2, 100 * kSecond, true);
    job.beat_all(163 * kSecond);
    CHECK(first.longest_wait(163 * kSecond) == Approx(63));
    CHECK_FALSE(second.tick(163 * kSecond));
    CHECK_FALSE(job.monitor(0).tick(163 * kSecond));  // the monitor of another process set reports nothing
    const auto finding = first.tick(163 * kSecond);
    REQUIRE(finding);
    REQUIRE(finding->report);
    REQUIRE(finding->report->tensors.size() == 1);
    CHECK(finding->report->tensors.front().ready == std::vector<std::int32_t>{1});
    CHECK(finding->report->tensors.front().missing == std::vector<std::int32_t>{2});
    REQUIRE(finding->report->missing_ranks.size() == 1);
    CHECK(finding->report->missing_ranks.front().rank == 2);
    CHECK_THAT(finding->text,
               Catch::Contains("\n  receive from rank 2, tag 5: waiting for 63 s; ready: rank 1; missing: "
                               "rank 2\n") &&
                   Catch::Contains("busy with 'evaluating'"));
    CHECK_FALSE(first.tick(170 * kSecond));  // the message was reported just now, so it is not reported again

    wait_for_message(job, 1, -1, 180 * kSecond, true);
    job.beat_all(250 * kSecond);
    const auto from_any = first.tick(250 * kSecond);
    REQUIRE(from_any);
    CHECK(from_any->report->tensors.front().missing == std::vector<std::int32_t>{0, 2});

    StallReport::Tensor held;
    held.name = "send to rank 2, tag 5 (waits for the work of GPU 3)";
    held.message = {.sends = true, .peer = 2, .is_late = true, .waits_for_gpu = true};
    publish_awaited_message(job.control->ranks[1], &held, 260 * kSecond);
    job.beat_all(330 * kSecond);
    const auto on_gpu = first.tick(330 * kSecond);
    REQUIRE(on_gpu);
    CHECK(on_gpu->report->tensors.front().missing == std::vector<std::int32_t>{1});
    REQUIRE(on_gpu->report->missing_ranks.size() == 1);
    CHECK(on_gpu->report->missing_ranks.front().rank == 1);
    CHECK_THAT(on_gpu->text,
               Catch::Contains("\n  send to rank 2, tag 5 (waits for the work of GPU 3): waiting for 70 s; "
                               "missing: the GPU of rank 1\n"));
    publish_awaited_message(job.control->ranks[1], nullptr, 0);
    CHECK_FALSE(first.tick(900 * kSecond));
}

TEST_CASE("a message and a tensor that are late make one report, and the older one ends the job") {
    Job job;
    StallMonitor first = job.monitor(0, 60, 100);
    first.report_messages();
    REQUIRE(job.set.announce_in_full(0, "w", allreduce_of({3}), 110 * kSecond).is_ok());
    wait_for_message(job, 1, 2, 100 * kSecond, true);
    job.beat_all(175 * kSecond);
    const auto finding = first.tick(175 * kSecond);
    REQUIRE(finding);
    REQUIRE(finding->report->tensors.size() == 2);
    CHECK(finding->report->tensors.front().name == "receive from rank 2, tag 5");
    CHECK(finding->report->tensors.back().name == "w");
    CHECK(finding->report->missing_ranks.size() == 2);
    job.beat_all(200 * kSecond);
    const auto end = first.tick(200 * kSecond);
    REQUIRE(end);
    CHECK(end->shut_down);
    CHECK_THAT(end->text, Catch::StartsWith("receive from rank 2, tag 5 has waited for rank 2 for 100 s") &&
                              Catch::Contains("ready: rank 1"));
}

TEST_CASE("a stalled tensor is reported by the lowest rank") {
    Job job;
    REQUIRE(job.set.announce_in_full(0, "layer1.weight", allreduce_of({3}), 100 * kSecond).is_ok());
    REQUIRE(job.set.announce_in_full(2, "layer1.weight", allreduce_of({3}), 105 * kSecond).is_ok());
    job.control->ranks[1].busy.write("saving checkpoint");
    StallMonitor first = job.monitor(0);
    StallMonitor third = job.monitor(2);
    job.beat_all(159 * kSecond);
    CHECK_FALSE(first.tick(159 * kSecond));
    CHECK_FALSE(third.tick(159 * kSecond));
    const auto finding = first.tick(161 * kSecond);
    REQUIRE(finding);
    CHECK_FALSE(finding->shut_down);
    CHECK(finding->text == sentence("60") +
                               "\n  Probable cause: rank 1 has been busy with 'saving checkpoint'"
                               "\n  tensor 'layer1.weight': waiting for 61 s; ready: ranks 0, 2; missing: rank 1"
                               "\n  rank 1" +
                               job.pid() + ": busy with 'saving checkpoint'; waits in no collective itself");
    CHECK_FALSE(third.tick(161 * kSecond));
    CHECK_FALSE(first.tick(162 * kSecond));
}

TEST_CASE("nothing is reported where the check is switched off, or all arrive in time") {
    Job job;
    const std::uint32_t slot = job.set.bind("a", allreduce_of({3}));
    base::Config config;
    config.stall_check = false;
    config.stall_shutdown_seconds = 60;
    StallMonitor off(StallSettings(config), *job.control, 0, job.set.memory());
    StallMonitor on = job.monitor(0);
    REQUIRE(job.set.arrive_at(0, slot, 1, 0) == Arrival::counted);
    CHECK_FALSE(off.tick(1000 * kSecond));
    REQUIRE(job.set.arrive_at(1, slot, 1, 59 * kSecond) == Arrival::counted);
    CHECK_FALSE(on.tick(59 * kSecond));
    REQUIRE(job.set.arrive_at(2, slot, 1, 59 * kSecond) == Arrival::last);
    CHECK_FALSE(on.tick(1000 * kSecond));
}

TEST_CASE("if the lowest rank does not respond, the next rank continues its reports") {
    Job job;
    const std::uint32_t slot = job.set.bind("a", allreduce_of({3}));
    REQUIRE(job.set.arrive_at(1, slot, 1, 0) == Arrival::counted);
    REQUIRE(job.set.arrive_at(2, slot, 1, 0) == Arrival::counted);
    StallMonitor second = job.monitor(1);
    StallMonitor third = job.monitor(2);
    job.beat_all(60 * kSecond);
    CHECK_FALSE(second.tick(60 * kSecond));  // rank 0 reports for the whole host
    CHECK_FALSE(third.tick(60 * kSecond));
    job.beat(1, 120 * kSecond);
    job.beat(2, 120 * kSecond);
    const auto finding = second.tick(120 * kSecond);
    REQUIRE(finding);
    CHECK(finding->text == sentence("60") +
                               "\n  tensor 'a': waiting for 120 s; ready: ranks 1, 2; missing: rank 0"
                               "\n  rank 0" +
                               job.pid() + ": waits in no collective itself; has not responded for 60 s");
    CHECK_FALSE(third.tick(120 * kSecond));
    CHECK_FALSE(second.tick(239 * kSecond));
    // Rank 0 does not respond, and rank 1, the next rank, has left the job. Therefore rank 2 reports.
    job.control->ranks[1].state.store(static_cast<std::uint32_t>(RankState::left));
    job.beat(1, 240 * kSecond);
    CHECK(third.tick(240 * kSecond));
}

TEST_CASE("a shutdown that ranks do not come to is reported by the lowest rank, and ends the job") {
    Job job;
    base::Config config;
    config.stall_shutdown_seconds = 90;
    StallMonitor first(StallSettings(config), *job.control, 0, job.set.memory());
    begin_to_await_end(job.set.memory(), 0, EndCall::shutdown, 0);
    note_end_announced(job.set.memory(), 0);
    // Rank 1 also waits in shutdown(), but cannot announce this, because its mailbox is full.
    begin_to_await_end(job.set.memory(), 1, EndCall::shutdown, 5 * kSecond);
    job.set.memory().mailbox(1).reads_awaited = 1;
    job.control->ranks[0].state.store(static_cast<std::uint32_t>(RankState::shutting_down));
    job.beat_all(60 * kSecond);
    CHECK_FALSE(first.tick(59 * kSecond));
    const auto report = first.tick(60 * kSecond);
    REQUIRE(report);
    CHECK_FALSE(report->shut_down);
    CHECK(report->text ==
          first_line_about_end("shutdown()", "60") +
              "\n  shutdown(): waiting for 60 s; ready: rank 0; missing: ranks 1, 2"
              "\n  rank 1" +
              job.pid() +
              ": has called shutdown(), and waits until the others have read what it announced before; waits in no "
              "collective itself"
              "\n  rank 2" +
              job.pid() + ": waits in no collective itself");
    job.beat_all(91 * kSecond);
    const auto end = first.tick(91 * kSecond);
    REQUIRE(end);
    CHECK(end->shut_down);
    CHECK(
        end->text ==
        "shutdown() has waited for ranks 1, 2 for 91 s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (90); ready: rank "
        "0; the job is ended");
    // A rank whose wait in shutdown() has timed out counts as a rank that never waited.
    end_to_await_end(job.set.memory(), 0);
    end_to_await_end(job.set.memory(), 1);
    CHECK(pending_tensors(job.set.memory()).empty());
}

TEST_CASE("a shutdown that all ranks announced, and that does not complete, names them all") {
    Job job;
    StallMonitor first = job.monitor(0);
    for (std::uint32_t member = 0; member < 3; ++member) {
        begin_to_await_end(job.set.memory(), member, EndCall::remove, 0);
        note_end_announced(job.set.memory(), member);
        job.set.memory().cursor(member).position.store(member == 1 ? 3 : 7);
    }
    job.beat_all(60 * kSecond);
    const auto report = first.tick(60 * kSecond);
    REQUIRE(report);
    CHECK(report->text.find("remove_process_set(): waiting for 60 s; ready: ranks 0-2; missing: no rank\n") !=
          std::string::npos);
    CHECK(report->text.find("\n  rank 1" + job.pid() + ": has read 3 of 7 decisions; waits itself in") !=
          std::string::npos);
}

TEST_CASE("a shutdown that all ranks announced, and that no visible rank delays, ends the job") {
    Job job;
    for (std::uint32_t member = 0; member < 3; ++member) {
        begin_to_await_end(job.set.memory(), member, EndCall::shutdown, 0);
        note_end_announced(job.set.memory(), member);
    }
    job.beat_all(60 * kSecond);
    StallMonitor monitor = job.monitor(0, 50, 60);
    const auto finding = monitor.tick(60 * kSecond);
    REQUIRE(finding);
    CHECK(
        finding->text ==
        "shutdown() has not ended after 60 s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (60); ready: ranks 0-2; the "
        "job is ended");
}

TEST_CASE("a rank with announcements that wait for room is not called missing") {
    Job job;
    REQUIRE(job.set.announce_in_full(0, "a", allreduce_of({3}), 0).is_ok());
    auto& mailbox = job.set.memory().mailbox(1);
    mailbox.deferred_ns.store(kSecond);
    mailbox.deferred.open("b");
    const AwaitedTensor awaited{.name = "a"};
    const auto wait = [&] { return format_wait(job.monitor(0).account_of(std::span(&awaited, 1), kSecond)); };
    job.beat_all(60 * kSecond);
    // Every rank can see that the announcement of "b" by rank 1 waits for space in the mailbox.
    mailbox.deferred_count.store(1);
    CHECK(wait().starts_with("ranks 1, 2 have not announced it, rank 0 has; rank 1 (pid"));
    mailbox.deferred_count.store(2);
    CHECK(
        wait().starts_with("rank 2 has not announced it, rank 0 has; rank 1 may have announced it, but its mailbox "
                           "has no room; rank 1 (pid"));
    StallMonitor monitor = job.monitor(0);
    const auto finding = monitor.tick(60 * kSecond);
    REQUIRE(finding);
    CHECK(finding->text.find("\n  tensor 'a': waiting for 60 s; ready: rank 0; missing: rank 2; rank 1 may have "
                             "announced it, but its mailbox has no room\n") != std::string::npos);
    CHECK(finding->text.find("\n  rank 1" + job.pid() + ": waits itself in tensor 'b'") != std::string::npos);
}

TEST_CASE("an error of a wait for a tensor that this rank could not announce gives the reason") {
    Job job;
    const AwaitedTensor awaited{.name = "a", .waits_for_room = true};
    const auto wait = [&] { return format_wait(job.monitor(0).account_of(std::span(&awaited, 1), kSecond)); };
    job.beat_all(kSecond);
    CHECK(wait() == "this rank has not announced it yet, because its mailbox has no room");
    set_step(job.set.memory(), 1, ProtocolStep::kRegistrar);
    CHECK(
        wait().starts_with("this rank has not announced it yet, because its mailbox has no room until rank 1 has "
                           "handled the announcements in it; rank 1 (pid"));
    job.set.memory().mailbox(0).reads_awaited = 3;
    job.set.memory().cursor(0).position.store(3);
    job.set.memory().cursor(1).position.store(3);
    CHECK(
        wait().starts_with("this rank has not announced it yet, because its mailbox has no room until rank 2 has "
                           "read the log; rank 2 (pid"));
}

TEST_CASE("an error of a wait for an unknown tensor does not say that it is in progress") {
    Job job;
    const std::uint32_t slot = job.set.bind("a", allreduce_of({3}));
    job.set.catch_up();
    job.beat_all(kSecond);
    AwaitedTensor awaited{.name = "b"};
    const auto wait = [&] { return format_wait(job.monitor(0).account_of(std::span(&awaited, 1), kSecond)); };
    CHECK(wait() == "it is not known which rank it waits for");
    awaited = {.name = "a", .slot = slot, .generation = 1};
    CHECK(wait() == "it is not known which rank it waits for");
    job.set.call(slot, 1);
    CHECK(wait() == "all ranks have announced it, and it is under way");
    job.set.catch_up();
    CHECK(wait() == "all ranks have announced it, and it is under way");
}

TEST_CASE("a heartbeat counts for two seconds, or three liveness intervals if that is more") {
    const double interval = GENERATE(0.2, 2.0);
    const std::int64_t limit = interval > 1 ? 6 * kSecond : 2 * kSecond;
    for (const bool responds : {true, false}) {
        Job job;
        base::Config config;
        config.liveness_seconds = interval;
        StallMonitor second(StallSettings(config), *job.control, 1, job.set.memory());
        REQUIRE(job.set.announce_in_full(1, "a", allreduce_of({3}), 0).is_ok());
        job.beat(0, 100 * kSecond - limit - (responds ? 0 : 1));
        CHECK(second.tick(100 * kSecond).has_value() == !responds);
    }
}

TEST_CASE("ranks that wait for each other crosswise, with what each of them waits in") {
    Job job;
    const Metadata scalar = allreduce_of({1});
    REQUIRE(job.set.announce_in_full(0, "a", allreduce_of({3}), 0).is_ok());
    REQUIRE(job.set.announce_in_full(1, "b", allreduce_of({3}), 2 * kSecond).is_ok());
    REQUIRE(job.set.arrive_at(2, 0, 1, 66 * kSecond, &scalar) == Arrival::counted);
    StallMonitor monitor = job.monitor(0);
    job.beat_all(70 * kSecond);
    const auto finding = monitor.tick(70 * kSecond);
    REQUIRE(finding);
    CHECK(finding->text == sentence("60") +
                               "\n  Probable cause: the ranks are waiting for each other crosswise: rank 0 in tensor "
                               "'a', rank 1 in tensor 'b'"
                               "\n  tensor 'a': waiting for 70 s; ready: rank 0; missing: ranks 1, 2"
                               "\n  tensor 'b': waiting for 68 s; ready: rank 1; missing: ranks 0, 2"
                               "\n  rank 0" +
                               job.pid() +
                               ": waits itself in tensor 'a' (70 s)"
                               "\n  rank 1" +
                               job.pid() +
                               ": waits itself in tensor 'b' (68 s)"
                               "\n  rank 2" +
                               job.pid() + ": waits itself in the 1st unnamed operation of this process set (4 s)");
}

TEST_CASE("the state of a missing rank's process, unless its number belongs to another one by now") {
    Job job;
    tests::Child child;
    job.control->ranks[1].pid.store(child.pid());
    job.control->ranks[1].process_start.store(base::process_start_time(child.pid()));
    child.stop();
    REQUIRE(job.set.announce_in_full(0, "a", allreduce_of({3}), 0).is_ok());
    REQUIRE(job.set.announce_in_full(2, "a", allreduce_of({3}), 0).is_ok());
    StallMonitor monitor = job.monitor(0);
    job.beat_all(60 * kSecond);
    const auto report_with = [&](const std::string& state) {
        const std::string pid = " (pid " + std::to_string(child.pid()) + ")";
        return sentence("60") + "\n  Probable cause: the process of rank 1" + pid + " does not run: " + state +
               "\n  tensor 'a': waiting for 60 s; ready: ranks 0, 2; missing: rank 1\n  rank 1" + pid + ": " + state +
               "; waits in no collective itself";
    };
    CHECK(monitor.tick(60 * kSecond)->text == report_with("stopped by a signal"));
    job.control->ranks[1].process_start.fetch_add(1);
    StallMonitor other = job.monitor(0);
    CHECK(other.tick(60 * kSecond)->text == report_with("gone"));
}

TEST_CASE("after the shutdown time every rank asks for the end of the job, first the one that reports") {
    Job job;
    const std::uint32_t slot = job.set.bind("a", allreduce_of({3}));
    REQUIRE(job.set.arrive_at(2, slot, 1, 0) == Arrival::counted);
    for (const std::uint32_t own : {0U, 1U}) {
        StallMonitor monitor = job.monitor(own, 0.5, 2);
        job.beat_all(kSecond);
        CHECK(monitor.tick(kSecond).has_value() == (own == 0));
        const std::int64_t ends_at = own == 0 ? 2 * kSecond : 7 * kSecond / 2;
        for (std::int64_t now = kSecond + kSecond / 4; now < ends_at; now += kSecond / 4) {
            job.beat_all(now);
            const auto before = monitor.tick(now);
            CHECK_FALSE((before && before->shut_down));
        }
        job.beat_all(ends_at);
        const auto finding = monitor.tick(ends_at);
        REQUIRE(finding);
        CHECK(finding->shut_down);
        CHECK(finding->text ==
              std::string("tensor 'a' has waited for ranks 0, 1 for ") + (own == 0 ? "2" : "3.5") +
                  " s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (2); ready: rank 2; the job is ended");
        CHECK(finding->ends_job == finding->text);
        CHECK((finding->report == nullptr) == (own != 0));
        CHECK_FALSE(monitor.tick(ends_at + kSecond / 4));  // the monitor reports only once that it ends the job
    }
    // If the lower ranks do not respond, rank 1 reports the stall and ends the job.
    StallMonitor monitor = job.monitor(1, 0.5, 2);
    job.beat(0, -kSecond);
    job.beat(1, 2 * kSecond);
    const auto finding = monitor.tick(2 * kSecond);
    REQUIRE(finding);
    CHECK(finding->shut_down);
}

TEST_CASE("the job ends within a liveness interval of its time") {
    for (const double shutdown : {60.0, 60.1, 75.35, 90.9}) {
        Job job;
        REQUIRE(job.set.announce_in_full(2, "a", allreduce_of({3}), 1000 * kSecond).is_ok());
        StallMonitor monitor = job.monitor(0, 60, shutdown);
        const std::int64_t interval = kSecond / 5;
        const std::int64_t due = 1000 * kSecond + nanoseconds(shutdown);
        std::int64_t ended = 0;
        for (std::int64_t now = 1000 * kSecond + 1; ended == 0 && now < 1200 * kSecond; now += interval) {
            job.beat_all(now);
            const auto finding = monitor.tick(now);
            ended = finding && finding->shut_down ? now : 0;
        }
        CAPTURE(shutdown);
        CHECK(ended >= due);
        CHECK(ended <= due + interval);
    }
}

TEST_CASE("the report gives a missing rank's host, its step, and the operation that it finished last") {
    Job job;
    const std::uint32_t slot = job.set.bind("layer1.weight", allreduce_of({3}));
    REQUIRE(job.set.announce_in_full(0, "other", allreduce_of({3}), 0).is_ok());
    REQUIRE(job.set.announce_in_full(2, "other", allreduce_of({3}), 0).is_ok());
    job.control->ranks[1].step.store(17);
    auto& cursor = job.set.memory().cursor(1);
    base::Config config;
    config.hostname = "node7";
    const auto line = [&](std::int64_t now) {
        job.beat_all(now);
        StallMonitor monitor(StallSettings(config), *job.control, 0, job.set.memory());
        const std::string text = monitor.tick(now)->text;
        return text.substr(text.find("\n  rank 1"));
    };
    const std::string head = "\n  rank 1 on node7" + job.pid() + ": in step 17; ";
    CHECK(line(70 * kSecond) == head + "waits in no collective itself");
    // Rank 1 finished an operation after its last heartbeat, so its background thread has not recorded the time yet.
    cursor.finished.store(std::uint64_t{9} << kFinishedSlotBits | (slot + 1));
    StallMonitor own(StallSettings(config), *job.control, 1, job.set.memory());
    CHECK(line(75 * kSecond) == head + "last finished tensor 'layer1.weight' 0 s ago; waits in no collective itself");
    own.date_last_finished(76 * kSecond);
    own.date_last_finished(80 * kSecond);  // this call changes nothing: no operation has finished since the first call
    CHECK(line(86 * kSecond) == head + "last finished tensor 'layer1.weight' 10 s ago; waits in no collective itself");
    cursor.finished.store(std::uint64_t{2} << kFinishedSlotBits | 4);
    own.date_last_finished(87 * kSecond);
    CHECK(line(100 * kSecond) == head +
                                     "last finished the 8th unnamed operation of this process set 13 s ago; waits in "
                                     "no collective itself");
    // The value below stands for an operation without a slot. The line cannot name such an operation.
    cursor.finished.store(std::uint64_t{9} << kFinishedSlotBits);
    CHECK(line(101 * kSecond) == head + "waits in no collective itself");
}

TEST_CASE("the arena is looked at four times per warning time, and at least once per second") {
    for (const double warning : {0.4, 60.0}) {
        Job job;
        StallMonitor monitor = job.monitor(0, warning);
        const std::int64_t interval = warning < 1 ? kSecond / 10 : kSecond;
        const std::int64_t start = 1000 * kSecond;
        CHECK_FALSE(monitor.tick(start));
        REQUIRE(job.set.announce_in_full(0, "a", allreduce_of({3}), 0).is_ok());
        // The tensor is stalled. But the monitor does not look before the end of its interval.
        CHECK_FALSE(monitor.tick(start + interval - 1));
        CHECK(monitor.tick(start + interval));
    }
}

}  // namespace
}  // namespace rueda::core::test
