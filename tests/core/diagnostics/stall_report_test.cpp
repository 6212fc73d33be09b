// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_report.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

const std::string kSentence60 =
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    "remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to submit "
    "different "
    "tensors or that only subset of ranks is submitting tensors, which will cause deadlock.";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST_CASE("the first line is the sentence that users search for, with the setting as it was written") {
    CHECK(format_stall_report({}) == kSentence60);
    const auto with = [](const std::string& seconds) {
        std::string sentence = kSentence60;
        return sentence.replace(sentence.find("60"), 2, seconds);
    };
    CHECK(format_stall_report({.warning_seconds = 0.5, .tensors = {}, .missing_ranks = {}}) == with("0.5"));
    CHECK(format_stall_report({.warning_seconds = 0.25, .tensors = {}, .missing_ranks = {}}) == with("0.25"));
    CHECK(format_stall_report({.warning_seconds = 100, .tensors = {}, .missing_ranks = {}}) == with("100"));
    CHECK(format_stall_report({.warning_seconds = 31536000, .tensors = {}, .missing_ranks = {}}) == with("31536000"));
}

TEST_CASE("a report with everything") {
    StallReport report;
    report.tensors = {{"layer1.weight", 0, 73.4, {0, 1, 2, 5}, {3, 4}}, {"", 17, 61.5, {0}, {1, 2, 3, 4, 5}}};
    report.missing_ranks = {
        {3, 4711, "running", "saving checkpoint", {}, "", 0},
        {4, 4712, "stopped by a signal", "", {{"b", 0, 9.96, {4}, {0}}, {"", 18, 3.25, {4}, {0}}}, "", 12.4},
        {5, 4713, "", "", {{"layer1.weight", 0, 73.4, {}, {}}}, "main at train.py:12\nstep at train.py:30", 0}};
    report.missing_ranks.front().busy_seconds = 71.2;
    report.started = {{14, {3, 5}}, {17, {0}}, {15, {4}}};
    CHECK(
        format_stall_report(report) ==
        kSentence60 +
            "\n  Probable cause: the process of rank 4 (pid 4712) does not run: stopped by a signal"
            "\n  Probable cause: rank 3 has been busy with 'saving checkpoint' for 71 s"
            "\n  tensor 'layer1.weight': waiting for 73 s; ready: ranks 0-2, 5; missing: ranks 3, 4"
            "\n  the 17th unnamed operation of this process set: waiting for 62 s; ready: rank 0; missing: ranks 1-5; "
            "rank "
            "0 has started 17 unnamed operations, rank 4: 15, ranks 3, 5: 14; they match by the order of the calls, "
            "so all ranks must make the same number: names or RUEDA_CALL_SITES=1 show which"
            "\n  rank 3 (pid 4711): running; busy with 'saving checkpoint' for 71 s; waits in no collective itself"
            "\n  rank 4 (pid 4712): stopped by a signal; waits itself in tensor 'b' (10 s), the 18th unnamed operation "
            "of this process set (3.2 s); has not responded for 12 s"
            "\n  rank 5 (pid 4713): waits itself in tensor 'layer1.weight' (73 s)"
            "\n    main at train.py:12"
            "\n    step at train.py:30");
}

TEST_CASE("ranks that wait for each other are reported as such") {
    StallReport report;
    report.tensors = {{"a", 0, 61, {0, 2}, {1, 3}}, {"b", 0, 60, {1, 2, 3}, {0}}};
    CHECK(format_stall_report(report) ==
          kSentence60 +
              "\n  Probable cause: the ranks are waiting for each other crosswise: rank 0 in tensor 'a', ranks 1, 3 in "
              "tensor 'b'"
              "\n  tensor 'a': waiting for 61 s; ready: ranks 0, 2; missing: ranks 1, 3"
              "\n  tensor 'b': waiting for 60 s; ready: ranks 1-3; missing: rank 0");
}

TEST_CASE("long reports are cut, and say so") {
    StallReport report;
    for (int i = 0; i < 23; ++i) {
        report.tensors.push_back({fmt::format("t{}", i), 0, 61, {0}, {1}});
    }
    report.missing_ranks = {{1, 7, "", "", {report.tensors.begin(), report.tensors.begin() + 6}, "", 0}};
    const std::string text = format_stall_report(report);
    CHECK(first_line(text) == kSentence60);
    CHECK(text.find("tensor 't19': waiting") != std::string::npos);
    CHECK(text.find("tensor 't20': waiting") == std::string::npos);
    CHECK(text.ends_with(
        "\n  and 3 more tensors\n  rank 1 (pid 7): waits itself in tensor 't0' (61 s), tensor 't1' (61 s), "
        "tensor 't2' (61 s), tensor 't3' (61 s) and 2 more"));
}

TEST_CASE("texts that other processes wrote cannot break the lines") {
    StallReport report;
    report.tensors = {{"a\nb", 0, 61, {0}, {1}}};
    report.missing_ranks = {{1, 7, "", "x\033[2Jy", {}, "", 0}};
    CHECK(format_stall_report(report) == kSentence60 +
                                             "\n  Probable cause: rank 1 has been busy with 'x?[2Jy'"
                                             "\n  tensor 'a?b': waiting for 61 s; ready: rank 0; missing: rank 1"
                                             "\n  rank 1 (pid 7): busy with 'x?[2Jy'; waits in no collective itself");
}

TEST_CASE("the reason of a shutdown is one line with tensor, ranks and times") {
    CHECK(format_stall_shutdown({"layer1.weight", 0, 120.6, {0, 2}, {1}}, 120) ==
          "tensor 'layer1.weight' has waited for rank 1 for 121 s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (120); "
          "ready: ranks 0, 2; the job is ended");
    CHECK(format_stall_shutdown({"", 3, 0.75, {1}, {0}}, 0.5) ==
          "the 3rd unnamed operation of this process set has waited for rank 0 for 0.8 s, more than "
          "RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.5); ready: rank 1; the job is ended");
    CHECK(format_stall_shutdown({"", 3, 0.75, {1}, {0}}, 0.5, {{2, {0}}, {3, {1}}}) ==
          "the 3rd unnamed operation of this process set has waited for rank 0 for 0.8 s, more than "
          "RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.5); ready: rank 1; the job is ended; rank 1 has started 3 unnamed "
          "operations, rank 0: 2; they match by the order of the calls, so all ranks must make the same number: names "
          "or RUEDA_CALL_SITES=1 show which");
    CHECK(format_stall_shutdown({"w", 0, 0.75, {1}, {0}, {{"train.py:42", {1}}}}, 0.5, {{2, {0}}, {3, {1}}}) ==
          "tensor 'w' has waited for rank 0 for 0.8 s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.5); ready: rank "
          "1; called from: rank 1: train.py:42; the job is ended");
}

TEST_CASE("a report says where the calls stand") {
    StallReport report;
    report.tensors = {{"a", 0, 61, {0, 1, 2}, {3}, {{"train.py:57", {2}}, {"train.py:42", {1, 0}}}}};
    report.missing_ranks = {{3, 7, "running", "", {{"b", 0, 60, {}, {}, {{"eval.py:8", {3}}}}}, "", 0}};
    CHECK(format_stall_report(report) ==
          kSentence60 +
              "\n  tensor 'a': waiting for 61 s; ready: ranks 0-2; missing: rank 3; called from: ranks 0, 1: "
              "train.py:42; rank 2: train.py:57"
              "\n  rank 3 (pid 7): running; waits itself in tensor 'b' (60 s, called from eval.py:8)");
}

TEST_CASE("calls and messages are not called tensors") {
    CHECK(name_of(StallReport::Tensor{"w", 0, 1, {}, {}}) == "tensor 'w'");
    CHECK(name_of(StallReport::Tensor{"", 3, 1, {}, {}}) == describe_unnamed(3));
    CHECK(name_of(StallReport::Tensor{"join()", 0, 1, {}, {}}) == "join()");
    CHECK(name_of(StallReport::Tensor{"shutdown()", 0, 1, {}, {}}) == "shutdown()");
    CHECK(name_of(StallReport::Tensor{"rueda.process_sets", 0, 1, {}, {}}) ==
          "add_process_set() or remove_process_set()");
    StallReport::Tensor message{"send to rank 1, tag 5", 0, 1, {}, {}};
    message.message = {true, false, 1};
    CHECK(name_of(message) == "send to rank 1, tag 5");
}

TEST_CASE("a tensor that is being executed") {
    StallReport report;
    report.executing = true;
    report.tensors = {{"w", 0, 61.3, {0}, {1, 2}}};
    report.missing_ranks = {{1, 4711, "running", "", {}, "", 0}, {2, 4712, "running", "", {}, "", 12}};
    report.missing_ranks.back().steps_behind = 3;
    report.missing_ranks.front().takes_turns = true;
    report.elsewhere = {3, 4};
    CHECK(format_stall_report(report) ==
          "tensor 'w' was announced by all ranks 61 seconds ago and is still not done: a rank makes no progress"
          "\n  Probable cause: rank 2 has not delivered its part: 3 steps behind the rank that has done most"
          "\n  tensor 'w': not done for 61 s; done: rank 0; not done: ranks 1, 2"
          "\n  ranks 3, 4 are on other hosts, and may not have done their part"
          "\n  rank 1 (pid 4711): running; waits in no collective itself"
          "\n  rank 2 (pid 4712): running; 3 steps behind the rank that has done most; waits in no collective itself; "
          "has not responded for 12 s");
    report.missing_ranks = {{1, 4711, "running", "", {}, "", 0}};
    report.missing_ranks.back().takes_turns = false;
    CHECK_THAT(format_stall_report(report),
               Catch::EndsWith("\n  rank 1 (pid 4711): running; the thread that executes the operation does not "
                               "respond; waits in no collective itself"));
}

TEST_CASE("the text about what an operation waits for is one line") {
    StallReport::Rank stopped;
    stopped.rank = 1;
    stopped.pid = 17;
    stopped.process_state = "stopped by a signal";
    WaitReport report;
    CHECK(format_awaited(report).empty());
    CHECK(format_wait(report).empty());
    report.parts = {{.tensor = {.name = "w"}, .ready = {0, 2}, .missing = {1}}};
    report.ranks = {stopped};
    CHECK(format_awaited(report) == "tensor 'w'");
    CHECK(format_wait(report) ==
          "rank 1 has not announced it, ranks 0, 2 have; rank 1 (pid 17): stopped by a signal; waits in no collective "
          "itself");
    report.elsewhere = {3, 4};
    CHECK(
        format_wait(report).starts_with("rank 1 has not announced it, ranks 0, 2 have; of ranks 3, 4, on other "
                                        "hosts, this rank does not know it; rank 1 "));
    report.parts.front().missing.clear();
    report.ranks.clear();
    CHECK(format_wait(report) ==
          "all ranks of this host have announced it, and ranks 3, 4, on other hosts, may not have; the stall report "
          "will say which");
    report.elsewhere.clear();
    CHECK(format_wait(report) == "all ranks have announced it, and it is under way");
    report.parts = {{.tensor = {.call = 3}, .ready = {0}, .missing = {1, 2}},
                    {.tensor = {.name = "g", .is_group = true}, .ready = {0}, .missing = {1, 2}}};
    CHECK(format_awaited(report) == describe_unnamed(3) + " and 1 more");
    CHECK(format_wait(report) == describe_unnamed(3) +
                                     ": ranks 1, 2 have not announced it, rank 0 has; group 'g': ranks 1, 2 have not "
                                     "announced it, rank 0 has");
    report.parts = {{.tensor = {.call = 70, .waits_behind = 6}, .ready = {0}, .missing = {1}}};
    CHECK(format_wait(report) ==
          "this rank has not announced it yet, because " + describe_unnamed(6) + " waits for rank 1");
    report.parts = {{.tensor = {.name = "receive from any rank, tag 7"}, .ready = {0}, .missing = {1, 2}}};
    report.kind = WaitReport::Kind::receive;
    CHECK(format_awaited(report) == "receive from any rank, tag 7");
    CHECK(format_wait(report) == "none of ranks 1, 2 has sent it");
    report.kind = WaitReport::Kind::send;
    report.parts.front().missing = {2};
    CHECK(format_wait(report) == "rank 2 has not received it");
}

}  // namespace
}  // namespace rueda::core
