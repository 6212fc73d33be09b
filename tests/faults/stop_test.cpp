// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests stopped ranks. A stopped rank counts as alive, so it does not end the job. If the job ends for another reason,
// the other ranks wait for the stopped rank only for a short time.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "tests/faults/faults.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a rank is stopped and goes on", "[faults]") {
    const bool resident = GENERATE(false, true);
    check_passed(run_clients(
        2, test_config(),
        [&](RankContext& context, RuntimeClient& client) {
            const Buffer buffer(client, DType::float32, {1 << 18}, resident);
            const double begin = now_seconds();
            context.phase("working");
            for (int i = 0;; ++i) {
                fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), i);
                expect_ok(client.allreduce("tensor", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), "a step");
                check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), i, "a step");
                // Rank 0 decides by its clock whether both ranks make another step.
                std::int64_t more = now_seconds() - begin < 2 ? 1 : 0;
                const Tensor tensor{&more, DType::int64, {1}};
                expect_ok(client.broadcast("more", tensor, 0), "more");
                if (more == 0 && i >= 20) {
                    break;
                }
            }
        },
        {.as = RanksAs::processes, .meanwhile = [&](RunningRanks& running) {
             running.wait_for_phase(0, "working");
             running.wait_for_phase(1, "working");
             for (int i = 0; i < 3; ++i) {
                 std::this_thread::sleep_for(20ms);
                 running.stop_rank(1 - i % 2);
                 // this time is longer than the interval at which ranks look for dead ranks
                 std::this_thread::sleep_for(400ms);
                 running.continue_rank(1 - i % 2);
             }
         }}));
}

/// Rank 1 is stopped inside a resident allreduce, and then rank 2 dies. When rank 1 continues, it may still write to
/// rank 0's tensor.
TEST_CASE("a writer is stopped when another rank dies", "[faults]") {
    const double grace = 0.3;
    double killed_at = 0;
    const RanksResult result = run_ranks(
        3,
        [&](RankContext& context) {
            auto plane = context.open_control_plane();
            plane.status().throw_if_failed();
            base::Config config = test_config();
            config.abort_grace_seconds = grace;
            auto client = RuntimeClient::create(config, std::move(plane).value());
            client.status().throw_if_failed();
            // No other rank starts an operation with this name, so this operation stays pending. No thread waits for it
            // before the end of the test.
            const Buffer alone(*client.value(), DType::float32, {10}, /*resident=*/true);
            const auto unawaited =
                expect_value(client.value()->start_allreduce("alone." + std::to_string(context.rank()), alone.tensor(),
                                                             alone.tensor(), {}),
                             "an operation of one rank");
            context.phase("working");
            const Status status = reduce_until_failure(*client.value(), "tensor", false, 1 << 20, true);
            context.report("failed", fmt::format("{:.6f}", now_seconds()));
            context.report("code", rueda::name_of(status.code()));
            context.report("text", status.message());
            const auto later = [&] {
                return expect_failure(
                    client.value()->start_allreduce("later", alone.tensor(), alone.tensor(), {}).status(),
                    ErrorCode::aborted, "an operation after the abort");
            };
            // The operation in progress, the next operation, and the operation for which no thread waited must all have
            // the same error.
            const std::string reason = status.message().substr(status.message().find("rank "));
            RUEDA_RANK_EQUAL(status.message(), "tensor 'tensor': " + reason);
            RUEDA_RANK_EQUAL(later(), "tensor 'later': " + reason);
            expect_ok(client.value()->shutdown(), "shutdown");
            RUEDA_RANK_EQUAL(later(), "tensor 'later': " + reason);
            RUEDA_RANK_EQUAL(unawaited->wait().message(), fmt::format("tensor 'alone.{}': {}", context.rank(), reason));
            context.phase("ended");
        },
        {.as = RanksAs::processes, .deadline = 30s, .meanwhile = [&](RunningRanks& running) {
             for (const int rank : {0, 1, 2}) {
                 running.wait_for_phase(rank, "working");
             }
             std::this_thread::sleep_for(50ms);
             running.stop_rank(1);
             killed_at = now_seconds();
             running.kill_rank(2, SIGKILL);
             // Rank 0 must end although rank 1 is still stopped.
             running.wait_for_phase(0, "ended");
             running.continue_rank(1);
         }});
    INFO(result.text());
    CHECK(result.leaks.empty());
    const RankOutcome& survivor = result.ranks[0];
    REQUIRE(survivor.end == RankEnd::returned);
    CHECK(survivor.value("code") == "Aborted");
    const std::string& text = survivor.value("text");
    CHECK(text.find("tensor 'tensor': rank 2 (pid ") == 0);
    CHECK(text.find("; a rank did not leave its batch in time, so the contents of tensors in resident memory are "
                    "undefined") != std::string::npos);
    const double seconds = std::stod(survivor.value("failed")) - killed_at;
    CHECK(seconds >= grace);
    CHECK(seconds < grace + kPromiseSeconds);
    // The job has ended before the stopped rank continues.
    CHECK(result.ranks[1].end == RankEnd::returned);
    CHECK(result.ranks[1].value("code") == "Aborted");
    CHECK(result.ranks[2].end == RankEnd::killed);
}

}  // namespace
}  // namespace rueda::tests
