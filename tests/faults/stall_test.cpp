// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A tensor that one rank does not submit: the report on the standard error, and the end of the job where one is asked
// for.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/faults/captured_errors.hpp"
#include "tests/faults/faults.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

constexpr const char* kSentence =
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    "remainder of ranks for more than 0.5 seconds. This may indicate that different ranks are trying to submit "
    "different tensors or that only subset of ranks is submitting tensors, which will cause deadlock.";

/// Rank 2 is busy while the others wait for it; later it comes, and everything goes on.
void one_rank_is_late(RankContext& context, RuntimeClient& client, const CapturedErrors& errors) {
    std::vector<float> values(100);
    const Tensor tensor{values.data(), DType::float32, {100}};
    fill_input(tensor, ReduceOp::sum, client.rank(), 1);
    for (int step = 0; step < 2; ++step) {  // bound by now
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
        std::this_thread::sleep_for(50ms);  // a second report in a hurry would be one too many
        context.phase("reported");
    }
    expect_ok(pending->wait(), "gradient");
    check_allreduce(tensor, {ReduceOp::sum}, client.size(), 1, "gradient");
}

TEST_CASE("a stalled tensor is reported", "[faults]") {
    const RanksResult result =
        run_ranks(3,
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
                          expect_part(text, "busy with 'loading data'; waits in no collective itself");
                      }
                  },
                  {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a stalled job is ended", "[faults]") {
    base::Config config = test_config();
    config.stall_warning_seconds = 0.2;
    config.stall_shutdown_seconds = 0.6;
    const RanksResult result =
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
                        expect_part(text, "tensor 'gradient' has waited for rank 1 for 0.");
                        expect_part(text, " s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.6); ready: rank");
                        RUEDA_RANK_CHECK(late || seconds >= 0.3);  // the other may have come later
                        RUEDA_RANK_CHECK(seconds < 0.6 + kPromiseSeconds);
                    },
                    {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.passed());
}

/// Gives two names their slots. The second one is opened while the first one is pending, or its slot would be taken
/// back for it.
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

/// All slots are bound, and idle. Rank 2 stands still before it can read that one of them is taken back, so the name
/// that the others announce gets no slot.
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
        RUEDA_RANK_CHECK(seconds >= 0.6);  // rank 1 may have come earlier
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
    const RanksResult result =
        run_clients(3, config, announce_without_a_slot, {.as = RanksAs::processes, .deadline = 20s});
    INFO(result.text());
    CHECK(result.passed());
}

}  // namespace
}  // namespace rueda::tests
