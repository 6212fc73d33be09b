// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank does not submit a tensor. The tests check the stall report on standard error and, if the settings request
// it, the end of the job.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <ctime>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "tests/faults/captured_errors.hpp"
#include "tests/faults/faults.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

/// Returns the number that follows the first occurrence of `before` in `text`.
double number_after(const std::string& text, const std::string& before) {
    expect_part(text, before);
    return std::stod(text.substr(text.find(before) + before.size()));
}

constexpr const char* kSentence =
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    "remainder of ranks for more than 0.5 seconds. This may indicate that different ranks are trying to submit "
    "different tensors or that only subset of ranks is submitting tensors, which will cause deadlock.";

/// Rank 2 is busy while the other ranks wait. When rank 2 comes, all ranks must continue.
void one_rank_is_late(RankContext& context, RuntimeClient& client, const CapturedErrors& errors) {
    std::vector<float> values(100);
    const Tensor tensor{values.data(), DType::float32, {100}};
    fill_input(tensor, ReduceOp::sum, client.rank(), 1);
    for (int step = 0; step < 2; ++step) {  // after the first step the name has a slot
        float one = 1;
        expect_ok(client.allreduce("gradient", {&one, DType::float32, {1}}, {&one, DType::float32, {1}}, {}), "before");
    }
    if (client.rank() == 2) {
        client.runtime().begin_step(8);
        client.runtime().begin_busy("loading data");
        context.report("pid", ::getpid());
        context.phase("busy");
        context.wait_for_phase(0, "reported");
        expect_ok(client.runtime().end_busy(), "end_busy");
    } else {
        context.wait_for_phase(2, "busy");
    }
    const double begin = now_seconds();
    const auto pending = expect_value(client.start_allreduce("gradient", tensor, tensor, {ReduceOp::sum}), "gradient");
    if (client.rank() == 0) {
        while (errors.text().find("loading data") == std::string::npos && now_seconds() - begin < 20) {
            std::this_thread::sleep_for(5ms);
        }
        const double seconds = now_seconds() - begin;
        RUEDA_RANK_CHECK(seconds >= 0.5);
        RUEDA_RANK_CHECK(seconds < 0.5 + kPromiseSeconds);
        std::this_thread::sleep_for(50ms);  // no second report may come within 50 ms
        context.phase("reported");
    }
    expect_ok(pending->wait(), "gradient");
    check_allreduce(tensor, {ReduceOp::sum}, client.size(), 1, "gradient");
}

TEST_CASE("a stalled tensor is reported", "[faults]") {
    check_passed(run_ranks(3,
                           [](RankContext& context) {
                               const CapturedErrors errors;
                               base::Config config = test_config();
                               config.log_level = base::LogLevel::warning;
                               config.stall_warning_seconds = 0.5;
                               auto plane = context.open_control_plane();
                               plane.status().throw_if_failed();
                               auto client = RuntimeClient::create(config, std::move(plane).value());
                               client.status().throw_if_failed();
                               one_rank_is_late(context, *client.value(), errors);
                               expect_ok(client.value()->shutdown(), "shutdown");
                               const std::string text = errors.text();
                               context.report("errors", text);
                               RUEDA_RANK_EQUAL(occurrences(text, kSentence), context.rank() == 0 ? 1U : 0U);
                               if (context.rank() == 0) {
                                   expect_part(text, "rank 0]");
                                   expect_part(text, "\n  tensor 'gradient': waiting for ");
                                   expect_part(text, "; ready: ranks 0, 1; missing: rank 2\n");
                                   expect_part(text, "\n  rank 2 on ");
                                   expect_part(text, "; in step 8; last finished tensor 'gradient' ");
                                   expect_part(text, "busy with 'loading data' for ");
                                   expect_part(text,
                                               "\n  Probable cause: rank 2 has been busy with 'loading data' for ");
                                   expect_part(text, " s; waits in no collective itself");
                               }
                           },
                           {.as = RanksAs::processes}));
}

TEST_CASE("a stalled job is ended", "[faults]") {
    base::Config config = test_config();
    config.stall_warning_seconds = 0.2;
    config.stall_shutdown_seconds = 0.6;
    check_passed(
        run_clients(3, config,
                    [](RankContext& context, RuntimeClient& client) {
                        float value = 0;
                        const Tensor tensor{&value, DType::float32, {1}};
                        const bool late = client.rank() == 1;
                        if (late) {
                            context.wait_for_phase(0, "failed");
                        }
                        const double begin = now_seconds();
                        const std::string text = expect_failure(client.allreduce("gradient", tensor, tensor, {}),
                                                                ErrorCode::aborted, "the stalled operation");
                        const double seconds = now_seconds() - begin;
                        context.phase("failed");
                        const double told = number_after(text, "tensor 'gradient' has waited for rank 1 for ");
                        RUEDA_RANK_CHECK(told >= 0.6);
                        RUEDA_RANK_CHECK(told < 0.6 + kPromiseSeconds);
                        expect_part(text, " s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.6); ready: rank");
                        // The report gives the time since the first rank began to wait. This rank may have begun later,
                        // so its own wait may be shorter.
                        RUEDA_RANK_CHECK(late || seconds >= 0.3);
                        RUEDA_RANK_CHECK(seconds < 0.6 + kPromiseSeconds);
                    },
                    {.as = RanksAs::processes}));
}

/// Runs `body` in a job that reports stalls after half a second. `body` can read this rank's standard error.
void with_captured_errors(RankContext& context, const base::Config& settings,
                          const std::function<void(RuntimeClient&, const CapturedErrors&)>& body) {
    const CapturedErrors errors;
    base::Config config = settings;
    config.log_level = base::LogLevel::warning;
    config.stall_warning_seconds = 0.5;
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    auto client = RuntimeClient::create(config, std::move(plane).value());
    client.status().throw_if_failed();
    body(*client.value(), errors);
    context.report("errors", errors.text());
}

void wait_for_text(const CapturedErrors& errors, const std::string& text) {
    for (const double begin = now_seconds(); errors.text().find(text) == std::string::npos;) {
        RUEDA_RANK_CHECK(now_seconds() - begin < 20);
        std::this_thread::sleep_for(5ms);
    }
}

/// Calls shutdown() in another thread, while this thread watches the standard error.
template <class Meanwhile>
void shut_down_while(RuntimeClient& client, Meanwhile&& meanwhile) {
    Status status;
    std::thread leaving([&] { status = client.runtime().shutdown(); });
    std::exception_ptr failed;
    try {
        meanwhile();
    } catch (...) {
        failed = std::current_exception();
        client.runtime().abort("the test has failed");
    }
    leaving.join();
    if (failed) {
        std::rethrow_exception(failed);
    }
    expect_ok(status, "shutdown");
}

TEST_CASE("a shutdown that a rank does not come to is reported", "[faults]") {
    check_passed(run_ranks(
        3,
        [](RankContext& context) {
            with_captured_errors(context, test_config(), [&](RuntimeClient& client, const CapturedErrors& errors) {
                if (client.rank() == 2) {
                    client.runtime().begin_busy("saving a checkpoint");
                    context.wait_for_phase(0, "reported twice");
                    expect_ok(client.runtime().end_busy(), "end_busy");
                    expect_ok(client.shutdown(), "shutdown");
                    return;
                }
                const double begin = now_seconds();
                shut_down_while(client, [&] {
                    if (client.rank() == 0) {
                        wait_for_text(errors, "saving a checkpoint");
                        RUEDA_RANK_CHECK(now_seconds() - begin >= 0.5);
                        RUEDA_RANK_CHECK(now_seconds() - begin < 0.5 + kPromiseSeconds);
                        // The next report must not come before the warning time has passed once more.
                        while (occurrences(errors.text(), "shutdown() was called") < 2) {
                            RUEDA_RANK_CHECK(now_seconds() - begin < 20);
                            std::this_thread::sleep_for(5ms);
                        }
                        context.phase("reported twice");
                    }
                });
                const std::string text = errors.text();
                if (client.rank() == 0) {
                    expect_part(text,
                                "shutdown() was called by a subset of the ranks, and has waited for the others for "
                                "more than 0.5 seconds. Either they still have work");
                    const double told = number_after(text, "\n  shutdown(): waiting for ");
                    RUEDA_RANK_CHECK(told >= 0.5);
                    RUEDA_RANK_CHECK(told < 0.5 + kPromiseSeconds);
                    expect_part(text, "; ready: ranks 0, 1; missing: rank 2\n");
                    expect_part(text, "\n  rank 2 on ");
                    expect_part(text, "sleeping; ");
                    expect_part(text, "busy with 'saving a checkpoint' for ");
                    expect_part(text, " s; waits in no collective itself");
                } else {
                    RUEDA_RANK_EQUAL(text, std::string());  // only the lowest of the responding ranks reports
                }
            });
        },
        {.as = RanksAs::processes}));
}

TEST_CASE("a shutdown that a rank does not come to ends the job", "[faults]") {
    base::Config config = test_config();
    config.stall_shutdown_seconds = 0.9;
    const RanksResult result = run_ranks(
        2,
        [&](RankContext& context) {
            with_captured_errors(context, config, [&](RuntimeClient& client, const CapturedErrors& /*unused*/) {
                if (client.rank() == 0) {
                    const double begin = now_seconds();
                    const std::string reason =
                        expect_failure(client.runtime().shutdown(), ErrorCode::aborted, "shutdown");
                    const double seconds = now_seconds() - begin;
                    expect_part(reason, "shutdown() has waited for rank 1 for ");
                    expect_part(reason, "; the job is ended");
                    context.phase("left");
                    RUEDA_RANK_CHECK(seconds >= 0.9);
                    RUEDA_RANK_CHECK(seconds < 0.9 + kPromiseSeconds);
                    return;
                }
                context.wait_for_phase(0, "left");
                float value = 0;
                const Tensor tensor{&value, DType::float32, {1}};
                std::string text;
                // This rank first reads in the log that rank 0 shuts down, and only later sees the abort. So its first
                // errors may not contain the reason of the abort.
                for (const double begin = now_seconds(); text.find("has waited for rank 1") == std::string::npos;) {
                    RUEDA_RANK_CHECK(now_seconds() - begin < 20);
                    text = expect_failure(client.allreduce("gradient", tensor, tensor, {}), ErrorCode::aborted,
                                          "an operation afterwards");
                }
                expect_part(expect_failure(client.runtime().shutdown(), ErrorCode::aborted, "shutdown"),
                            "has waited for rank 1 for ");
            });
        },
        {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.passed());
    // Every rank measures the time of its wait. The rank that notices the stall first reports it.
    const std::string said = result.ranks[0].value("errors") + result.ranks[1].value("errors");
    CHECK(said.find("shutdown() has waited for rank 1 for ") != std::string::npos);
    CHECK(said.find(" s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.9); ready: rank 0; the job is ended") !=
          std::string::npos);
}

double processor_seconds() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

/// Stops rank 1, so that rank 0's mailbox fills up with names for which no slot is free.
void fill_mailbox(RankContext& context, RuntimeClient& client, std::vector<PendingPointer>& pending) {
    context.phase("filling");
    context.wait_for_phase(1, "idle");
    context.stop_rank(1);
    static float value = 1;
    const Tensor tensor{&value, DType::float32, {1}};
    for (int i = 0; i < 16 + 3 * 64; ++i) {
        pending.push_back(
            expect_value(client.start_allreduce("name." + std::to_string(i), tensor, tensor, {}), "a start"));
    }
}

TEST_CASE("a shutdown that finds its mailbox full waits without a core, and is reported", "[faults]") {
    base::Config config = test_config();
    config.slots = 16;
    config.slots_max = 16;
    check_passed(run_ranks(
        2,
        [&](RankContext& context) {
            with_captured_errors(context, config, [&](RuntimeClient& client, const CapturedErrors& errors) {
                if (client.rank() == 1) {
                    context.phase("idle");
                    context.wait_for_phase(0, "reported");
                    expect_ok(client.shutdown(), "shutdown");
                    return;
                }
                std::vector<PendingPointer> pending;
                fill_mailbox(context, client, pending);
                // Two of the tensors for which the mailbox has no space: the first one and the last one. The other
                // ranks cannot see these tensors.
                for (const std::size_t late : {std::size_t{16 + 64}, pending.size() - 1}) {
                    expect_part(
                        expect_failure(pending[late]->wait(0.3), ErrorCode::timeout, "an operation without room"),
                        ": this rank has not announced it yet, because its mailbox has no room until rank 1 has "
                        "read the log; rank 1 ");
                }
                shut_down_while(client, [&] {
                    const double used = processor_seconds();
                    const double begin = now_seconds();
                    wait_for_text(errors, "shutdown(): waiting for");
                    while (now_seconds() - begin < 1) {
                        std::this_thread::sleep_for(20ms);
                    }
                    const double share = (processor_seconds() - used) / (now_seconds() - begin);
                    context.report("share of a core", share);
                    // a wait must not occupy a whole core; it usually needs a few per cent of one
                    RUEDA_RANK_CHECK(share < 0.4);
                    context.phase("reported");
                    context.continue_rank(1);
                });
                expect_part(errors.text(), "; ready: no rank; missing: ranks 0, 1");
                expect_part(errors.text(),
                            "has called shutdown(), and waits until the others have read what it "
                            "announced before");
                expect_part(errors.text(), ": stopped by a signal; has read 0 of ");
                int ended = 0;
                for (const PendingPointer& one : pending) {
                    ended += one->wait().is_ok() ? 0 : 1;
                }
                RUEDA_RANK_EQUAL(ended, static_cast<int>(pending.size()));
            });
        },
        {.as = RanksAs::processes}));
}

TEST_CASE("a shutdown whose time limit has passed can be called again", "[faults]") {
    check_passed(run_clients(
        2, test_config(),
        [](RankContext& context, RuntimeClient& client) {
            if (client.rank() == 1) {
                context.wait_for_phase(0, "timed out");
                return;
            }
            for (int i = 0; i < 3; ++i) {
                expect_part(expect_failure(client.runtime().shutdown_within(0.02), ErrorCode::timeout, "a shutdown"),
                            "not all ranks have shut down within 0.02 s");
            }
            float value = 0;
            const Tensor tensor{&value, DType::float32, {1}};
            expect_failure(client.allreduce("gradient", tensor, tensor, {}), ErrorCode::not_initialized, "afterwards");
            context.phase("timed out");
            expect_ok(client.runtime().shutdown_within(20), "shutdown");
            expect_ok(client.runtime().shutdown_within(0), "again");
        },
        {.as = RanksAs::processes}));
}

/// Gives each of two names its own slot. The second name must be announced while the first name is pending. Otherwise
/// the second name would get the slot of the first name.
void bind_both(RankContext& context, RuntimeClient& client) {
    std::array<float, 2> values{};
    if (client.rank() == 2) {
        context.wait_for_phase(0, "both are open");
    }
    const Tensor first{&values[0], DType::float32, {1}};
    const Tensor second{&values[1], DType::float32, {1}};
    const auto one = expect_value(client.start_allreduce("first", first, first, {}), "first");
    const auto other = expect_value(client.start_allreduce("second", second, second, {}), "second");
    if (client.rank() == 0) {
        context.phase("both are open");
    }
    expect_ok(one->wait(), "first");
    expect_ok(other->wait(), "second");
}

/// All slots have names, and no operation uses the slots. Rank 2 is stopped, and the other ranks announce a new name.
/// The slot of another name can be taken back, but the new name gets it only after all ranks have read about this in
/// the log. Rank 2 cannot read the log, so the new name gets no slot.
void announce_without_a_slot(RankContext& context, RuntimeClient& client) {
    const CapturedErrors errors;
    float value = 1;
    const Tensor tensor{&value, DType::float32, {1}};
    bind_both(context, client);
    context.phase("bound");
    if (client.rank() == 0) {
        context.wait_for_phase(2, "bound");
        context.stop_rank(2);
        context.phase("rank 2 is stopped");
    } else {
        context.wait_for_phase(0, client.rank() == 2 ? "ended" : "rank 2 is stopped");
    }
    const double begin = now_seconds();
    const std::string text =
        expect_failure(client.allreduce("third", tensor, tensor, {}), ErrorCode::aborted, "the name without a slot");
    const double seconds = now_seconds() - begin;
    expect_part(text, "tensor 'third' has waited for rank 2 for ");
    expect_part(text, " s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (1.2); ready: rank");
    if (client.rank() == 0) {
        RUEDA_RANK_CHECK(seconds >= 0.6);  // the wait of rank 1 may have begun earlier than this rank's
        RUEDA_RANK_CHECK(seconds < 1.2 + kPromiseSeconds);
        const std::string report = errors.text();
        RUEDA_RANK_CHECK(occurrences(report, kSentence) >= 1);
        expect_part(report, "\n  tensor 'third': waiting for ");
        expect_part(report,
                    "; ready: ranks 0, 1; missing: rank 2; no room is free for it until rank 2 has read the log\n");
        expect_part(report, "): stopped by a signal; ");
        context.continue_rank(2);
        context.phase("ended");
    }
}

TEST_CASE("a name that gets no slot, because a stopped rank does not read the log, is reported and ends the job",
          "[faults]") {
    base::Config config = test_config();
    config.log_level = base::LogLevel::warning;
    config.slots = 2;
    config.slots_max = 2;
    config.stall_warning_seconds = 0.5;
    config.stall_shutdown_seconds = 1.2;
    check_passed(run_clients(3, config, announce_without_a_slot, {.as = RanksAs::processes, .deadline = 20s}));
}

}  // namespace
}  // namespace rueda::tests
