// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/top_view.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/recorder/recorder_writer.hpp"
#include "launcher/jobs/job_note.hpp"
#include "launcher/top/choose_job.hpp"
#include "tests/launcher/jobs/made_arena.hpp"

namespace rueda::launcher {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Returns a sample of a job that was taken at the given time, in seconds. All counters are 0.
TopSample sample_at(std::int64_t second, std::int32_t ranks) {
    TopSample sample;
    sample.job.id = "j1";
    sample.job.time_ns = second * kSecond;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        RankSample one;
        one.member = static_cast<std::uint32_t>(rank);
        one.rank = rank;
        one.pid = 100 + rank;
        one.state = base::RankState::running;
        one.process = ProcessSample{'S', 0, 60, 4096};
        sample.job.ranks.push_back(one);
        sample.counters.emplace_back(base::RecordedCounters{});
        RecordedRank recorded;
        recorded.rank = rank;
        recorded.sets = {{0, "ranks 0-" + std::to_string(ranks - 1)}};
        sample.recorded.push_back(recorded);
    }
    return sample;
}

void add_operation(TopSample& sample, std::size_t rank, std::int64_t announced_ns, std::int64_t started_ns) {
    base::RecordedOperation operation;
    std::vector<base::RecordedOperation>& operations = sample.recorded[rank].operations;
    operation.number = operations.size();
    operation.ordinal = operations.size() + 1;
    operation.name = "gradient";
    operation.has_name_record = true;
    operation.announced_ns = announced_ns;
    operation.started_ns = started_ns;
    operation.ended_ns = started_ns + 1;
    operations.push_back(operation);
}

/// Adds an operation that the ranks announced at these times, in milliseconds.
void add_round(TopSample& sample, const std::vector<std::int64_t>& times) {
    std::int64_t last = 0;
    for (const std::int64_t time : times) {
        last = std::max(last, time);
    }
    for (std::size_t rank = 0; rank < times.size(); ++rank) {
        add_operation(sample, rank, times[rank] * 1'000'000, last * 1'000'000);
    }
}

std::vector<bool> stragglers(const TopView& view) {
    std::vector<bool> marks;
    for (const RankRow& row : view.rows) {
        marks.push_back(row.is_straggler);
    }
    return marks;
}

TEST_CASE("rates are differences over the interval") {
    TopSample before = sample_at(10, 1);
    TopSample after = sample_at(14, 1);
    before.counters[0]->ended = 100;
    before.counters[0]->bytes = 1000;
    before.counters[0]->batches = 7;
    before.counters[0]->steps = 5;
    before.counters[0]->step_began_ns = 9 * kSecond;
    after.counters[0]->ended = 139;
    after.counters[0]->failed = 1;
    after.counters[0]->bytes = 9000;
    after.counters[0]->batches = 17;
    after.counters[0]->steps = 7;
    after.counters[0]->step_began_ns = 12 * kSecond;
    before.job.ranks[0].process->cpu_seconds = 50;
    after.job.ranks[0].process->cpu_seconds = 53;
    const TopView view = compare(before, after, {});
    CHECK(view.interval_seconds == Approx(4));
    const RankRow& row = view.rows.at(0);
    CHECK(row.operations_per_second == Approx(10));
    CHECK(row.bytes_per_second == Approx(2000));
    CHECK(row.batches_per_second == Approx(2.5));
    CHECK(row.step_seconds == Approx(1.5));
    CHECK(row.in_step_seconds == Approx(2));
    CHECK(row.cpu_share == Approx(0.75));
    CHECK(row.process == "sleeping");
    CHECK_FALSE(row.outside);
}

TEST_CASE("if no step began in the interval, the step time is that of the last one") {
    const TopSample before = sample_at(10, 1);
    TopSample after = sample_at(12, 1);
    CHECK_FALSE(compare(before, after, {}).rows[0].step_seconds);
    after.counters[0]->step_ns = 5 * kSecond;
    CHECK(compare(before, after, {}).rows[0].step_seconds == Approx(5));
}

TEST_CASE("a rank that does not record, or has no process, has no values") {
    TopSample before = sample_at(10, 2);
    TopSample after = sample_at(12, 2);
    after.counters[0].reset();
    after.job.ranks[1].process.reset();
    before.counters[1].reset();  // rank 1 began to record during the interval
    after.counters[1]->ended = 1000;
    const TopView view = compare(before, after, {});
    CHECK_FALSE(view.rows[0].operations_per_second);
    CHECK_FALSE(view.rows[0].waiting_share);
    CHECK(view.rows[1].process == "gone");
    CHECK_FALSE(view.rows[1].cpu_share);
    CHECK(view.rows[1].operations_per_second == Approx(0));
}

TEST_CASE("counters that another process damages give no rates") {
    TopSample before = sample_at(10, 1);
    const TopSample after = sample_at(10, 1);
    before.counters[0]->bytes = 1000;
    CHECK(compare(before, after, {}).rows[0].bytes_per_second == Approx(0));
}

TEST_CASE("the rank for which the others wait is marked") {
    const TopSample before = sample_at(0, 3);
    TopSample after = sample_at(1, 3);
    SECTION("one is late each time") {
        add_round(after, {100, 300, 100});
        add_round(after, {400, 600, 450});
        const TopView view = compare(before, after, {});
        CHECK(stragglers(view) == std::vector<bool>{false, true, false});
        CHECK(view.rows[0].waiting_share == Approx(0.4));
        CHECK(view.rows[0].waits.at(0).whom == 1);
        CHECK(view.rows[1].waiting_share == Approx(0));
    }
    SECTION("all take turns") {
        add_round(after, {300, 100, 100});
        add_round(after, {400, 600, 400});
        add_round(after, {700, 700, 900});
        CHECK(stragglers(compare(before, after, {})) == std::vector<bool>{false, false, false});
    }
    SECTION("one is late, but by little") {
        add_round(after, {100, 140, 100});
        add_round(after, {500, 540, 500});
        CHECK(stragglers(compare(before, after, {})) == std::vector<bool>{false, false, false});
    }
}

TEST_CASE("a job of one rank has no straggler") {
    TopSample after = sample_at(1, 1);
    add_round(after, {100});
    CHECK(stragglers(compare(sample_at(0, 1), after, {})) == std::vector<bool>{false});
}

TEST_CASE("an operation that waits long is named") {
    const TopSample before = sample_at(0, 2);
    TopSample after = sample_at(60, 2);
    add_operation(after, 0, 48 * kSecond, 0);
    base::RecordedOperation& operation = after.recorded[0].operations[0];
    operation.started_ns.reset();
    operation.ended_ns.reset();
    const TopView view = compare(before, after, {});
    CHECK(view.rows[0].pending == "allreduce 'gradient' for 12 s");
    CHECK(view.rows[1].pending.empty());
    CHECK(stragglers(view) == std::vector<bool>{false, true});
    operation.is_launched = true;
    operation.launched_ns = 49 * kSecond;
    CHECK(compare(before, after, {}).rows[0].pending == "allreduce 'gradient' on the GPU for 11 s");
    operation.launched_ns.reset();
    operation.announced_ns = 60 * kSecond - kSecond / 2;
    CHECK(compare(before, after, {}).rows[0].pending.empty());
}

/// Adds a blocking receive that has not ended.
base::RecordedOperation& add_receive(TopSample& sample, std::size_t rank, std::int32_t peer,
                                     std::int64_t announced_ns) {
    add_operation(sample, rank, announced_ns, 0);
    base::RecordedOperation& operation = sample.recorded[rank].operations.back();
    operation.kind = base::RecordKind::kReceive;
    operation.name.clear();
    operation.has_name_record = false;
    operation.is_blocking = true;
    operation.message = {peer, 5};
    operation.started_ns.reset();
    operation.ended_ns.reset();
    return operation;
}

TEST_CASE("a rank that waits for a message is not the straggler") {
    const TopSample before = sample_at(0, 4);
    TopSample after = sample_at(8, 4);
    base::RecordedOperation& receive = add_receive(after, 2, 0, 2 * kSecond);
    const auto announce = [&after](std::size_t rank) {
        add_operation(after, rank, 2 * kSecond, 0);
        after.recorded[rank].operations.back().started_ns.reset();
        after.recorded[rank].operations.back().ended_ns.reset();
    };
    announce(1);
    announce(3);
    SECTION("the sender is in the operation that the receiver has not announced") {
        announce(0);
        const TopView view = compare(before, after, {});
        CHECK(stragglers(view) == std::vector<bool>{true, false, false, false});
        CHECK(view.rows[1].waits.at(0).whom == 2);
        CHECK(view.rows[2].waiting_share == Approx(0.75));
        CHECK(view.rows[2].waits.at(0).whom == 0);
        CHECK(view.rows[2].pending == "receive from rank 0 for 6 s");
    }
    SECTION("the sender is in no operation") {
        CHECK(stragglers(compare(before, after, {})) == std::vector<bool>{true, false, false, false});
    }
    SECTION("the sender waits for a message of the receiver") {
        receive.kind = base::RecordKind::kSend;
        add_receive(after, 0, 2, 2 * kSecond);
        const TopView view = compare(before, after, {});
        CHECK(stragglers(view) == std::vector<bool>(4, false));
        CHECK(view.rows[2].pending == "send to rank 0 for 6 s");
    }
    SECTION("the sender is any rank") {
        receive.message.peer = -1;
        announce(0);
        const TopView view = compare(before, after, {});
        CHECK(stragglers(view) == std::vector<bool>(4, false));
        CHECK(view.rows[2].waits.at(0).whom == kAnyRank);
        CHECK(view.rows[2].pending == "receive from any rank for 6 s");
    }
    SECTION("the receiver does not wait for the message") {
        receive.is_blocking = false;
        announce(0);
        const TopView view = compare(before, after, {});
        CHECK(stragglers(view) == std::vector<bool>{false, false, true, false});
        CHECK(view.rows[2].waits.empty());
        CHECK(view.rows[2].pending.empty());
    }
}

std::vector<Look> looks_of(std::initializer_list<std::pair<Activity, int>> counts) {
    std::vector<Look> looks;
    for (const auto& [activity, count] : counts) {
        looks.insert(looks.end(), static_cast<std::size_t>(count), Look{kSecond, activity});
    }
    return looks;
}

TEST_CASE("a rank that sleeps outside of Rueda and of scopes seems to wait for input") {
    const TopSample before = sample_at(0, 1);
    TopSample after = sample_at(2, 1);
    after.counters[0]->ended = 10;
    const auto judged = [&](std::initializer_list<std::pair<Activity, int>> counts) {
        return compare(before, after, std::vector<std::vector<Look>>{looks_of(counts)}).rows[0];
    };
    const RankRow bound = judged({{Activity::in_scope, 5}, {Activity::runs_outside, 8}, {Activity::sleeps_outside, 7}});
    REQUIRE(bound.outside);
    CHECK(bound.outside->sleeps == Approx(0.35));
    CHECK(bound.outside->runs == Approx(0.4));
    CHECK(bound.seems_bound_by_input);
    CHECK_FALSE(bound.waits_for_own_threads);
    CHECK_FALSE(judged({{Activity::runs_outside, 15}, {Activity::sleeps_outside, 5}}).seems_bound_by_input);
    CHECK_FALSE(judged({{Activity::sleeps_outside, 9}}).seems_bound_by_input);  // nine looks are too few
    const RankRow threads = judged({{Activity::runs_outside, 6}, {Activity::threads_run_outside, 4}});
    CHECK_FALSE(threads.seems_bound_by_input);
    CHECK(threads.waits_for_own_threads);
    after.counters[0]->ended = 0;  // rank 0 does not use Rueda
    CHECK_FALSE(judged({{Activity::sleeps_outside, 20}}).seems_bound_by_input);
    CHECK_FALSE(judged({{Activity::threads_run_outside, 20}}).waits_for_own_threads);
}

TEST_CASE("a rank that sleeps while its GPUs are busy may wait for these") {
    const TopSample before = sample_at(0, 2);
    TopSample after = sample_at(2, 2);
    after.counters[0]->ended = after.counters[1]->ended = 10;
    const std::vector<Look> sleeping = looks_of({{Activity::runs_outside, 4}, {Activity::sleeps_outside, 16}});
    const std::vector<std::vector<Look>> looks = {sleeping, sleeping};
    // Rank 0 is process 100, and rank 1 is process 101.
    std::vector<GpuUse> gpus = {{0, 0.75, 1000, 4000, {7, 100}}, {1, 0.35, {}, {}, {100}}, {2, {}, 5, 6, {101}}};
    TopView view = compare(before, after, looks, gpus);
    CHECK(view.has_gpus);
    REQUIRE(view.rows[0].gpus.size() == 2);
    CHECK(view.rows[0].gpus[0].used_bytes == 1000U);
    CHECK(view.rows[0].gpus[1].index == 1);
    CHECK(gpu_utilization(view.rows[0]) == Approx(0.55));
    CHECK(view.rows[0].idle_share == Approx(0.25));  // the rank slept 80 % of the time, and its GPUs were busy for 55 %
    CHECK_FALSE(view.rows[0].seems_bound_by_input);
    REQUIRE(view.rows[1].gpus.size() == 1);
    CHECK_FALSE(gpu_utilization(view.rows[1]));
    CHECK(view.rows[1].idle_share == Approx(0.8));
    CHECK(view.rows[1].seems_bound_by_input);

    gpus[0].utilization = 1;
    gpus[1].utilization = 1;
    view = compare(before, after, looks, gpus);
    CHECK(view.rows[0].idle_share == 0);
    CHECK_FALSE(view.rows[0].seems_bound_by_input);
    view = compare(before, after, looks);
    CHECK_FALSE(view.has_gpus);
    CHECK(view.rows[0].gpus.empty());
    CHECK(view.rows[0].seems_bound_by_input);
}

TEST_CASE("samples are taken from the memory of a job") {
    const MadeArena made(2);
    made.fill(0, getpid(), 5);
    const base::RecorderWriter writer(&made.recorder(0));
    Result<Job> job = choose_job(find_jobs(), std::to_string(getpid()));
    REQUIRE(job.is_ok());
    CHECK_FALSE(take_top_sample(job.value()).counters[1]);

    std::vector<std::vector<Look>> looks;
    const auto look = [&] { look_at_activities(job.value(), take_sample(job.value()).ranks, looks); };
    look();
    CHECK(looks.at(0).empty());  // this rank does not record yet, so there are no looks (samples of what the rank does)
    writer.begin();
    writer.note_set(0, "ranks 5, 6");
    look();
    CHECK(looks[0].back().activity == Activity::runs_outside);
    made.control().ranks[0].busy.write("saving");
    look();
    CHECK(looks[0].back().activity == Activity::in_scope);
    base::RecorderWriter::Announced what;
    what.name = writer.note_name(0, "loss");
    what.ordinal = 1;
    what.bytes = 64;
    const std::uint64_t number = writer.announce(what);
    look();
    CHECK(looks[0].back().activity == Activity::in_rueda);
    CHECK(looks[0].size() == 3);
    CHECK(looks[0][0].time_ns < looks[0][2].time_ns);

    const auto of_rank_5 = [](const TopSample& sample) { return sample.recorded.back(); };
    const TopSample pending = take_top_sample(job.value());
    REQUIRE(of_rank_5(pending).operations.size() == 1);
    CHECK(of_rank_5(pending).rank == 5);
    CHECK(of_rank_5(pending).operations[0].name == "loss");
    CHECK(of_rank_5(pending).sets.at(0).ranks == "ranks 5, 6");
    writer.start(number, base::ticks_now());
    writer.end(number, base::ticks_now(), ErrorCode::ok);
    const TopSample ended = take_top_sample(job.value());
    CHECK(ended.counters.back()->bytes == 64);
    CHECK(compare(pending, ended, looks).rows.back().operations_per_second.value() > 0);
}

TEST_CASE("the hosts of a job are in the environment of its ranks") {
    using namespace std::string_literals;
    const auto read = [](const std::string& value) {
        return read_launched_job("PATH=/bin\0RUEDARUN_JOB="s + value + "\0HOME=/\0"s);
    };
    const std::optional<LaunchedJob> found = read("3f0c@a,[::1],b");
    REQUIRE(found);
    CHECK(found->token == "3f0c");
    CHECK(found->hosts == std::vector<std::string>{"a", "::1", "b"});
    CHECK_FALSE(read("3f0c@a"));
    CHECK_FALSE(read("3f0c"));
    CHECK_FALSE(read("@a,b"));
    CHECK_FALSE(read("3f0c@a,,b"));
    CHECK_FALSE(read("3f0c@-oProxyCommand=x,b"));
    CHECK_FALSE(read_launched_job("RUEDARUN_JOBS=3f0c@a,b"));
    CHECK_FALSE(read_launched_job(""));
}

TEST_CASE("a description of a job can be read again") {
    const std::string text = describe_job("3f0c", {"a", "fd00::1", "10.0.0.7"});
    CHECK(text == "3f0c@a,[fd00::1],10.0.0.7");
    const std::optional<LaunchedJob> found = parse_launched_job(text);
    REQUIRE(found);
    CHECK(found->token == "3f0c");
    CHECK(found->hosts == std::vector<std::string>{"a", "fd00::1", "10.0.0.7"});
    CHECK_FALSE(parse_launched_job(""));
    CHECK_FALSE(parse_launched_job("3f0c@a,-b"));
    CHECK_FALSE(parse_launched_job("3f 0c@a,b"));
    CHECK_FALSE(parse_launched_job("-rf@a,b"));
    CHECK_FALSE(parse_launched_job(std::string(65, 'a') + "@a,b"));
}

TEST_CASE("a note is replaced, and disappears") {
    CHECK_FALSE(read_job_note(getpid()));  // ruedarun has not started this program
    CHECK_FALSE(read_note_of(getpid()));
    {
        JobNote note;
        note.write("3f0c@a,b");
        CHECK(read_note_of(getpid()) == "3f0c@a,b");
        note.write("3f0c@a,c");
        CHECK(read_note_of(getpid()) == "3f0c@a,c");
        note.write(std::string(JobNote::kLongest + 1, 'x'));
        CHECK_FALSE(read_note_of(getpid()));
        note.write("3f0c@a,d");
        note.write("");
        CHECK_FALSE(read_note_of(getpid()));
        note.write("3f0c@a,e");
    }
    CHECK_FALSE(read_note_of(getpid()));
}

}  // namespace
}  // namespace rueda::launcher
