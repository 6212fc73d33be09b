// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that an announcement wakes the callers that wait for it. A sleeping thread wakes up by itself only after an
// hour, so a lost wake-up makes the test hang.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 40;
constexpr auto kLate = 5ms;  // this time is enough for the other rank to fall asleep

/// Rank 0 announces directly and sleeps. Rank 1 cannot announce directly: its input does not fit into the announcement,
/// or its caller does not wait. Its announcement is therefore counted in the slot.
void other_ways_of_a_late_rank(RankContext& /*context*/, RuntimeClient& client) {
    const bool late = client.rank() == 1;
    const Buffer buffer(client, DType::float32, {1024}, /*resident=*/late);
    for (int round = 0; round < kRounds; ++round) {
        fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), round);
        if (late) {
            std::this_thread::sleep_for(kLate);
        }
        if (late && round % 2 == 1) {
            expect_ok(expect_value(client.start_allreduce("late", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}),
                                   "a start")
                          ->wait(),
                      "late");
        } else {
            expect_ok(client.allreduce("late", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), "late");
        }
        check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), round, "late");
    }
}

TEST_CASE("a late rank that counts its announcement wakes who announced directly", "[wakeups]") {
    check_passed(run_clients(2, patient_config(), other_ways_of_a_late_rank));
}

/// Rank 1 shuts down while both ranks make blocking calls. All pending operations of rank 0 must fail at once.
void shutdown_beside_a_blocked_thread(RankContext& context, RuntimeClient& client) {
    const auto reduce_until_failure = [&] {
        for (int round = 0;; ++round) {
            float value = 1;
            const Tensor tensor{&value, DType::float32, {1}};
            const Status status = client.allreduce("loop", tensor, tensor, {});
            if (!status.is_ok()) {
                return status;
            }
            if (round == 100) {
                context.phase("looping");
            }
        }
    };
    if (client.rank() == 0) {
        const Status status = reduce_until_failure();
        RUEDA_RANK_EQUAL(expect_failure(status, ErrorCode::aborted, "the loop").empty(), false);
        context.phase("failed");
        return;
    }
    if (client.rank() == 1) {
        // Rank 1's second thread starts operations. Depending on timing, its last operation is pending or refused when
        // rank 1 shuts down.
        Status other;
        std::jthread loop([&] { other = reduce_until_failure(); });
        context.wait_for_phase(1, "looping");
        expect_ok(client.shutdown(), "shutdown");
        loop.join();
        RUEDA_RANK_CHECK(other.code() == ErrorCode::aborted || other.code() == ErrorCode::not_initialized);
        return;
    }
    // Rank 2 does not shut down before rank 0 has seen that its own operation failed.
    RUEDA_RANK_CHECK(!reduce_until_failure().is_ok());
    context.wait_for_phase(0, "failed");
}

TEST_CASE("a shutdown beside a thread that blocks on a small tensor", "[wakeups]") {
    for (int i = 0; i < 20; ++i) {
        check_passed(run_clients(3, patient_config(), shutdown_beside_a_blocked_thread));
    }
}

/// Small inputs are sent with the announcements only in jobs of up to eight ranks. This job has nine.
TEST_CASE("more ranks than small inputs travel between", "[wakeups]") {
    check_passed(run_clients(9, patient_config(), [](RankContext&, RuntimeClient& client) {
        for (int round = 0; round < 5; ++round) {
            const Buffer buffer(client, DType::float32, {3}, round % 2 == 0);
            fill_input(buffer.tensor(), ReduceOp::sum, client.rank(), round);
            expect_ok(client.allreduce("nine", buffer.tensor(), buffer.tensor(), {ReduceOp::sum}), "nine");
            check_allreduce(buffer.tensor(), {ReduceOp::sum}, client.size(), round, "nine");
        }
    }));
}

}  // namespace
}  // namespace rueda::tests
