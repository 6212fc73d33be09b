// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that a group's name stays in use until the group's last member has ended, even if other members were called
// earlier.
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

constexpr double kHold = 0.3;  // the number of seconds for which members stay pending after they were called

Result<PendingPointer> start_group(RuntimeClient& client, const std::string& name, std::span<float> values) {
    std::vector<Tensor> tensors;
    for (float& value : values) {
        value = static_cast<float>(client.rank() + 1);
        tensors.push_back({&value, DType::float32, {1}});
    }
    return client.start_group(name, tensors, {ReduceOp::sum});
}

/// Tries to start a group until its name is free. As soon as the name is free, the previous group of this name must
/// have its results, although no thread waited for it.
PendingPointer start_after(const std::vector<float>& group, float sum, const std::string& text,
                           const std::function<Result<PendingPointer>()>& start) {
    std::uint64_t refused = 0;
    for (;; ++refused) {
        Result<PendingPointer> started = start();
        if (started.is_ok()) {
            RUEDA_RANK_CHECK(refused > 0);
            RUEDA_RANK_CHECK(group == std::vector<float>(group.size(), sum));
            return std::move(started).value();
        }
        RUEDA_RANK_EQUAL(expect_failure(started.status(), ErrorCode::duplicate_name, "a taken name"), text);
        std::this_thread::yield();
    }
}

void take_names(RankContext&, RuntimeClient& client) {
    const float sum = static_cast<float>(client.size() * (client.size() + 1) / 2);
    for (int round = 0; round < 3; ++round) {  // the name is new in round 1, and has a slot in later rounds
        std::vector<float> three(3);
        std::vector<float> two(2);
        float one = 1;
        const Tensor single{&one, DType::float32, {1}};
        const PendingPointer group = expect_value(start_group(client, "g", three), "a group");
        const PendingPointer operation =
            start_after(three, sum,
                        "tensor 'g': a group with this name is still pending on this rank; wait for it, or use another "
                        "name",
                        [&] { return client.start_allreduce("g", single, single, {ReduceOp::sum}); });
        expect_ok(operation->wait(), "a single operation");
        RUEDA_RANK_EQUAL(one, static_cast<float>(client.size()));
        expect_ok(group->wait(), "a group");

        const PendingPointer again = expect_value(start_group(client, "g", three), "the group again");
        const PendingPointer other =
            start_after(three, sum,
                        "group 'g': a group or an operation with this name is still pending on this rank; wait for "
                        "it, or use another name",
                        [&] { return start_group(client, "g", two); });
        expect_ok(again->wait(), "the group again");
        expect_ok(other->wait(), "a group of another number");
        RUEDA_RANK_EQUAL(two[1], sum);
    }
}

TEST_CASE("the name of a group is taken until its last member has ended", "[threads]") {
    base::Config config = test_config();
    config.hold_seconds = kHold;
    check_passed(run_clients(GENERATE(2, 3), config, take_names));
}

/// A program may start an operation whose name is also the name of a group's member. The operation does not belong to
/// the group.
TEST_CASE("an operation that is called like a member takes only its own name", "[threads]") {
    const bool is_of_its_tensor = GENERATE(false, true);
    check_passed(run_clients(2, test_config(), [&](RankContext& context, RuntimeClient& client) {
        std::vector<float> three(3);
        std::vector<float> two(2);
        float one = 1;
        const Tensor single{is_of_its_tensor ? &three[1] : &one, DType::float32, {1}};
        expect_ok(expect_value(start_group(client, "g", three), "a group")->wait(), "a group");
        PendingPointer like_a_member;
        if (client.rank() == 1) {
            context.wait_for_phase(0, "has started");
        }
        like_a_member = expect_value(client.start_allreduce("g_2of3", single, single, {ReduceOp::sum}), "an operation");
        const PendingPointer group = expect_value(start_group(client, "g", two), "another group");
        context.phase("has started");
        expect_ok(group->wait(), "another group");
        expect_ok(like_a_member->wait(), "the operation");
    }));
}

}  // namespace
}  // namespace rueda::tests
