// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_pattern.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace rueda::core {
namespace {

using Kind = StallPattern::Kind;
using Ranks = std::vector<std::int32_t>;

StallReport::Tensor tensor(const std::string& name, Ranks ready, Ranks missing) {
    return {name, 0, 61, std::move(ready), std::move(missing)};
}

StallReport::Tensor message(bool sends, std::int32_t own, std::int32_t peer, bool receives_too = false) {
    StallReport::Tensor described = tensor("a message", {own}, {peer});
    described.message = {sends, receives_too, peer};
    return described;
}

StallReport::Rank rank(std::int32_t number, std::vector<StallReport::Tensor> waits_in = {}) {
    StallReport::Rank described;
    described.rank = number;
    described.pid = 100 + number;
    described.process_state = "sleeping";
    described.waits_in = std::move(waits_in);
    return described;
}

std::vector<Kind> kinds_of(const StallReport& report) {
    std::vector<Kind> kinds;
    for (const StallPattern& pattern : find_stall_patterns(report)) {
        kinds.push_back(pattern.kind);
    }
    return kinds;
}

/// Requires that the report shows exactly one pattern, and returns it.
StallPattern only_pattern(const StallReport& report) {
    const std::vector<StallPattern> patterns = find_stall_patterns(report);
    REQUIRE(patterns.size() == 1);
    return patterns.front();
}

TEST_CASE("a report without a pattern") {
    StallReport report;
    CHECK(find_stall_patterns(report).empty());
    report.tensors = {tensor("a", {0, 1}, {2})};
    report.missing_ranks = {rank(2)};
    CHECK(find_stall_patterns(report).empty());
}

TEST_CASE("ranks that wait for each other crosswise") {
    StallReport report;
    report.tensors = {tensor("a", {0, 2}, {1, 3}), tensor("b", {1, 2, 3}, {0})};
    const StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::crosswise);
    CHECK(pattern.ranks == Ranks{0, 1, 3});
    CHECK(pattern.text ==
          "the ranks are waiting for each other crosswise: rank 0 in tensor 'a', ranks 1, 3 in tensor 'b'");
    // Every rank that is ready for 'b' is also ready for 'a', so all ranks may use the same order: first 'a', then 'b'.
    report.tensors[1] = tensor("b", {2}, {0, 1, 3});
    CHECK(find_stall_patterns(report).empty());
}

TEST_CASE("names that differ only in a number") {
    StallReport report;
    report.tensors = {tensor("gradient.9/part", {0}, {1}), tensor("gradient.10/part", {1}, {0})};
    const StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::numbered_names);
    CHECK(pattern.ranks == Ranks{0, 1});
    CHECK(pattern.text ==
          "the names differ only in a number: rank 0 waits for tensor 'gradient.9/part', rank 1 waits for tensor "
          "'gradient.10/part'; look for a counter in the name that has different values on the ranks");
    for (const char* other : {"gradient.10/parts", "gradient./part", "gradient.x/part", "10gradient./part", ""}) {
        INFO(other);
        report.tensors[1].name = other;
        CHECK(kinds_of(report) == std::vector<Kind>{Kind::crosswise});
    }
    // Ranks 0 and 1 both wait in g.1, so g.2 cannot be rank 1's name for the tensor that rank 0 calls g.1.
    report.tensors = {tensor("g.1", {0, 1}, {2}), tensor("g.2", {1}, {0, 2})};
    CHECK(find_stall_patterns(report).empty());
}

TEST_CASE("a rank that has fewer batches") {
    StallReport report;
    report.tensors = {tensor("gradient", {0, 2}, {1}), tensor("validation loss", {1}, {0, 2})};
    report.missing_ranks = {rank(0, {report.tensors[0]}), rank(1, {report.tensors[1]}), rank(2, {report.tensors[0]})};
    report.steps = {{118, {1}}, {119, {0, 2}}};
    const StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::loop_ended);
    CHECK(pattern.ranks == Ranks{0, 1, 2});
    CHECK(pattern.text ==
          "rank 1 ended its loop with step 118 and waits in tensor 'validation loss', while ranks 0, 2 are in step "
          "119; with data of different length, a rank that has no more calls join()");
    // Without step numbers, the pattern cannot be recognised.
    report.steps = {{-1, {0, 1, 2}}};
    CHECK(kinds_of(report) == std::vector<Kind>{Kind::crosswise});
    // If all ranks are in the same step, no rank ended its loop early. The ranks only call the operations in different
    // orders.
    report.steps = {{118, {0, 1, 2}}};
    CHECK(kinds_of(report) == std::vector<Kind>{Kind::crosswise});
    // Rank 1 is far behind, so it did not end its loop early. It has started its step count at 0 again.
    report.steps = {{0, {1}}, {49, {0, 2}}};
    CHECK(kinds_of(report) == std::vector<Kind>{Kind::crosswise});
    // Rank 2 waits in 'gradient' like rank 0, but is in the same step as rank 1. So rank 1 did not end its loop early.
    report.steps = {{118, {1, 2}}, {119, {0}}};
    CHECK(kinds_of(report) == std::vector<Kind>{Kind::crosswise});
}

TEST_CASE("a rank that is a step behind") {
    StallReport report;
    report.tensors = {tensor("gradient", {0, 2}, {1})};
    report.missing_ranks = {rank(1)};
    report.steps = {{7, {1}}, {8, {2}}, {9, {0}}};
    const StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::step_behind);
    CHECK(pattern.text == "rank 1 is still in step 7, while ranks 0, 2 are in step 8");
    report.missing_ranks.front().busy = "loading data";
    CHECK(kinds_of(report) == std::vector<Kind>{Kind::busy});
}

TEST_CASE("a rank that is busy with what it declared") {
    StallReport report;
    report.tensors = {tensor("gradient", {2}, {0, 1})};
    report.missing_ranks = {rank(0), rank(1)};
    report.missing_ranks[0].busy = "saving checkpoint";
    report.missing_ranks[0].busy_seconds = 71.4;
    report.missing_ranks[1].busy = "logging";
    report.missing_ranks[1].busy_seconds = 3;
    StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::busy);
    CHECK(pattern.ranks == Ranks{0});
    CHECK(pattern.text == "rank 0 has been busy with 'saving checkpoint' for 71 s");
    report.missing_ranks[1].busy.clear();
    report.missing_ranks[0].busy = "a\nb";  // another process may have written an invalid text
    report.missing_ranks[0].busy_seconds = -1;
    pattern = only_pattern(report);
    CHECK(pattern.text == "rank 0 has been busy with 'a?b'");
}

TEST_CASE("two ranks that send to each other") {
    StallReport report;
    report.tensors = {message(true, 3, 1)};
    report.missing_ranks = {rank(1, {message(true, 1, 3)})};
    const StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::sends_to_each_other);
    CHECK(pattern.ranks == Ranks{1, 3});
    CHECK(pattern.text ==
          "ranks 1 and 3 are both in a send to each other, and neither receives; one of them must receive first, or "
          "send with send_async");
    const std::vector<StallReport::Tensor> others{
        message(true, 1, 2),   // a send to rank 2, not to rank 3
        message(false, 1, 3),  // a receive that matches the send of rank 3 (if their tags are equal)
        message(true, 1, 3,
                true),  // an exchange, which contains a receive that matches the send of rank 3 (if the tags are equal)
        tensor("gradient", {1}, {3})  // this is not a message
    };
    for (const StallReport::Tensor& other : others) {
        report.missing_ranks = {rank(1, {other})};
        CHECK(find_stall_patterns(report).empty());
    }
    report.missing_ranks = {rank(1, {message(true, 1, 3)})};
    report.tensors = {message(true, 3, 1, true)};
    CHECK(find_stall_patterns(report).empty());
}

TEST_CASE("a process that does not run") {
    StallReport report;
    report.tensors = {tensor("a", {0}, {1})};
    report.missing_ranks = {rank(1)};
    for (const char* state : {"stopped by a signal", "stopped by a debugger (gdb, pid 7)", "ended", "gone"}) {
        report.missing_ranks.front().process_state = state + std::string("; has read 5 of 9 decisions");
        const StallPattern pattern = only_pattern(report);
        CHECK(pattern.kind == Kind::does_not_run);
        CHECK(pattern.text == std::string("the process of rank 1 (pid 101) does not run: ") + state);
    }
    for (const char* state : {"", "running", "sleeping, in a debugger (strace, pid 7)", "sleeping; gone"}) {
        report.missing_ranks.front().process_state = state;
        CHECK(find_stall_patterns(report).empty());
    }
}

TEST_CASE("the most telling patterns come first, and they are at most three") {
    StallReport report;
    report.tensors = {tensor("g.1", {0, 2}, {1, 3}), tensor("g.2", {1}, {0, 2, 3})};
    report.missing_ranks = {rank(1), rank(3)};
    report.missing_ranks[0].busy = "saving checkpoint";
    report.missing_ranks[1].process_state = "stopped by a signal";
    report.steps = {{4, {1, 3}}, {5, {0, 2}}};
    CHECK(kinds_of(report) == std::vector<Kind>{Kind::does_not_run, Kind::busy, Kind::numbered_names});
    CHECK(name_of(Kind::numbered_names) == "numbered_names");
}

TEST_CASE("an operation that is being executed") {
    StallReport report;
    report.executing = true;
    report.tensors = {tensor("w", {}, {0, 1, 2})};
    report.missing_ranks = {rank(0), rank(1), rank(2)};
    CHECK(find_stall_patterns(report).empty());
    report.missing_ranks[0].steps_behind = 1;
    report.missing_ranks[2].steps_behind = 4;
    const StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::undelivered);
    CHECK(pattern.ranks == Ranks{2});  // rank 0 is one step behind, perhaps only because it waits for rank 2
    CHECK(pattern.text == "rank 2 has not delivered its part: 4 steps behind the rank that has done most");
    report.missing_ranks[1].steps_behind = 4;
    CHECK(only_pattern(report).text ==
          "ranks 1, 2 have not delivered their parts: 4 steps behind the rank that has done most");
}

TEST_CASE("a rank that takes no turns holds up an operation, and a rank that takes turns only waits") {
    StallReport report;
    report.executing = true;
    report.tensors = {tensor("w", {}, {0, 1, 2})};
    report.missing_ranks = {rank(0), rank(1), rank(2)};
    report.missing_ranks[0].steps_behind = 4;
    report.missing_ranks[2].takes_turns = false;
    StallPattern pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::undelivered);
    CHECK(pattern.ranks == Ranks{2});
    CHECK(pattern.text == "rank 2 has not delivered its part: the thread that executes the operation does not respond");
    report.missing_ranks[2].steps_behind = 1;
    report.missing_ranks[2].part = StallReport::Part{StallReport::Part::Kind::input, 3, 64};
    CHECK(only_pattern(report).text ==
          "rank 2 has not delivered its input of chunk 3 of 64: 1 step behind the rank that has done most, and the "
          "thread that executes the operation does not respond");
    report.missing_ranks[1].takes_turns = false;
    CHECK(only_pattern(report).text ==
          "ranks 1, 2 have not delivered their parts: the threads that execute the operation do not respond");

    // It is not known whether rank 1 takes turns, for example because its process is stopped. The other ranks only
    // wait, although rank 0 has done least.
    report.missing_ranks = {rank(0), rank(1), rank(2)};
    report.missing_ranks[0].takes_turns = true;
    report.missing_ranks[0].steps_behind = 4;
    report.missing_ranks[2].takes_turns = true;
    report.missing_ranks[1].silent_seconds = 12;
    CHECK(find_stall_patterns(report).empty());
    report.elsewhere = {3};
    CHECK(find_stall_patterns(report).empty());
    report.missing_ranks[1].steps_behind = 2;
    CHECK(only_pattern(report).ranks == Ranks{1});

    // All ranks of this host take turns. If there are ranks elsewhere, one of those holds up the operation.
    report.missing_ranks[1].takes_turns = true;
    pattern = only_pattern(report);
    CHECK(pattern.kind == Kind::other_host);
    CHECK(pattern.ranks == Ranks{3});
    CHECK(pattern.text ==
          "no rank of this host holds up the operation; another host has not delivered its part (rank 3)");
    report.elsewhere = {};
    CHECK(only_pattern(report).ranks == Ranks{0});
}

TEST_CASE("a rank that has launched an operation is not the cause if others have not launched it") {
    StallReport report;
    report.executing = true;
    report.on_gpus = StallReport::OnGpus::launching;
    report.tensors = {tensor("w", {0, 1}, {2})};
    report.missing_ranks = {rank(0), rank(1), rank(2)};
    report.missing_ranks[0].busy = "save a checkpoint";
    report.missing_ranks[0].busy_seconds = 90;
    report.missing_ranks[1].process_state = "stopped by a signal";
    CHECK(find_stall_patterns(report).empty());
    report.missing_ranks[2].busy = "load data";
    report.missing_ranks[2].busy_seconds = 5;
    CHECK(only_pattern(report).ranks == Ranks{2});
    CHECK(only_pattern(report).kind == Kind::busy);
    report.missing_ranks[2].busy.clear();
    report.missing_ranks[2].process_state = "stopped by a signal";
    CHECK(only_pattern(report).ranks == Ranks{2});
    CHECK(only_pattern(report).kind == Kind::does_not_run);

    // If all ranks have launched the operation, each rank whose GPU has not done it can be the cause.
    report.on_gpus = StallReport::OnGpus::launched;
    CHECK(find_stall_patterns(report).size() == 2);
}

}  // namespace
}  // namespace rueda::core
