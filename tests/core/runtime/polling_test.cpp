// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests a caller that polls: it asks again and again whether an operation is done.
#include <catch2/catch.hpp>
#include <string>

#include "base/system/clock.hpp"
#include "rueda/rueda.h"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

/// Returns how often some thread woke the background thread of `rank` with a system call.
std::uint32_t rings_of(RuntimeClient& client, int rank) {
    return client.runtime().control().ranks[rank].attention.background_rings();
}

/// Returns how often the timer can have woken the background thread since `since_ns`: once per liveness interval. Other
/// threads cause all further wake-ups.
std::uint32_t timer_looks(std::int64_t since_ns, const base::Config& config) {
    return static_cast<std::uint32_t>(static_cast<double>(base::monotonic_ns() - since_ns) / 1e9 /
                                      config.liveness_seconds);
}

/// poll() may make progress on the caller's thread, but should hardly ever wake the background thread. kFewRings is the
/// number of wake-ups that the test allows during kPolls polls.
constexpr std::uint32_t kPolls = 20'000;
constexpr std::uint32_t kFewRings = 100;

TEST_CASE("polling while a batch is held back rings hardly anybody", "[threads]") {
    base::Config config = test_config();
    config.hold_seconds = 0.3;
    const RanksResult result = run_clients(2, config, [&](RankContext& context, RuntimeClient& client) {
        std::vector<float> values(1000);
        const Tensor tensor{values.data(), DType::float32, {1000}};
        fill_input(tensor, ReduceOp::sum, client.rank(), 1);
        const auto pending = expect_value(client.start_allreduce("held", tensor, tensor, {ReduceOp::sum}), "start");
        context.phase("announced");
        context.wait_for_phase(1 - client.rank(), "announced");
        const std::int64_t begin_ns = base::monotonic_ns();
        const std::uint32_t before = rings_of(client, client.rank());
        std::uint32_t polls = 0;
        while (!pending->ready()) {
            ++polls;
        }
        const std::uint32_t rings = rings_of(client, client.rank()) - before;
        context.report("polls", polls);
        context.report("rings", rings);
        RUEDA_RANK_CHECK(rings <= kFewRings + timer_looks(begin_ns, config));
        check_allreduce(tensor, {ReduceOp::sum}, client.size(), 1, "held");
    });
    INFO(result.text());
    CHECK(result.passed());
    CHECK(std::stoul(result.ranks[0].value("polls")) + std::stoul(result.ranks[1].value("polls")) > kPolls);
}

/// Stops a rank while this object lives.
class StoppedRank {
public:
    StoppedRank(const RankContext& context, int rank) : context_(context), rank_(rank) { context_.stop_rank(rank_); }
    StoppedRank(const StoppedRank&) = delete;
    StoppedRank& operator=(const StoppedRank&) = delete;
    ~StoppedRank() { context_.continue_rank(rank_); }

private:
    const RankContext& context_;
    const int rank_;
};

/// Rank 1 announces. It does not begin its part of the batch, because none of its threads waits for the operation. Then
/// rank 1 is stopped, so rank 0's part of the batch stays in progress.
TEST_CASE("polling while another rank does not come on rings hardly anybody", "[processes]") {
    base::Config config = test_config();
    config.hold_seconds = 3600;
    check_passed(run_clients(
        2, config,
        [&](RankContext& context, RuntimeClient& client) {
            const Buffer buffer(client, DType::float32, {1 << 20}, /*resident=*/false);
            fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), 1);
            const auto pending = expect_value(
                client.start_allreduce("staged", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), "start");
            context.phase("announced");
            if (client.rank() == 0) {
                context.wait_for_phase(1, "announced");
                const StoppedRank stopped(context, 1);
                expect_failure(pending->wait(0.1), ErrorCode::timeout, "what rank 1 does not come on with");
                const std::int64_t begin_ns = base::monotonic_ns();
                const std::uint32_t before = rings_of(client, 0);
                std::uint32_t polls = 0;
                for (; base::monotonic_ns() - begin_ns < 500'000'000; ++polls) {
                    RUEDA_RANK_CHECK(!pending->ready());
                }
                const std::uint32_t rings = rings_of(client, 0) - before;
                RUEDA_RANK_CHECK(polls > kPolls);
                RUEDA_RANK_CHECK(rings <= kFewRings + timer_looks(begin_ns, config));
                context.phase("polled");
            } else {
                context.wait_for_phase(0, "polled");  // waiting on the handle would begin the batch
            }
            expect_ok(pending->wait(), "staged");
            check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), 1, "staged");
        },
        {.as = RanksAs::processes}));
}

TEST_CASE("no handle is refused", "[threads]") {
    int completed = 7;
    CHECK(rueda_wait(nullptr, -1) == RUEDA_INVALID_ARGUMENT);
    CHECK(std::string(rueda_last_error()).find("the handle is NULL") == 0);
    CHECK(rueda_poll(nullptr, &completed) == RUEDA_INVALID_ARGUMENT);
    CHECK(completed == 7);
}

}  // namespace
}  // namespace rueda::tests
