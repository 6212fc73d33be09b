// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests leaders that sleep until a message of another host wakes them. The ranks are threads on simulated hosts, whose
// leaders connect over the loopback.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.h"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

/// A leader wakes up by its own timer only after hours, so a lost wake-up makes these tests hang.
base::Config sleeping_config() {
    base::Config config = patient_config();
    config.host_timeout_seconds = 80'000;
    return config;
}

void reduce(RuntimeClient& client, const std::string& name, int round) {
    std::vector<float> values(100);
    const Tensor tensor{values.data(), DType::float32, {100}};
    fill_input(tensor, ReduceOp::sum, client.rank(), round);
    expect_ok(client.allreduce(name, tensor, tensor, {ReduceOp::sum}), name);
    check_allreduce(tensor, {ReduceOp::sum}, client.size(), round, name);
}

/// Returns how late one rank is in a round. Usually it is 30 ms late, which is longer than a waiting thread spins. For
/// one second after a batch, a leader also wakes up by itself, so that MPI can send. So in one round the rank is more
/// than a second late. In this round, only a message of another host wakes the leader.
std::chrono::milliseconds pause_in(int round) { return std::chrono::milliseconds(round == 5 ? 1200 : 30); }

/// In each round, one rank comes later than the others, which sleep by then.
void reduce_with_pauses(RuntimeClient& client) {
    for (int round = 0; round < 12; ++round) {
        if (round % client.size() == client.rank()) {
            std::this_thread::sleep_for(pause_in(round));
        }
        reduce(client, "tensor" + std::to_string(round % 3), round);
    }
}

TEST_CASE("leaders that sleep are woken by messages of other hosts", "[threads]") {
    for (const Layout layout : {"ab", "aabb", "abcdefghijk"}) {
        INFO(layout);
        check_passed(run_clients(
            static_cast<int>(layout.size()), sleeping_config(),
            [](RankContext&, RuntimeClient& client) { reduce_with_pauses(client); }, {}, layout));
    }
}

/// Starts an operation, and waits for its end without a call of Rueda, so only the background thread makes progress.
void reduce_in_background(core::Runtime& runtime, const std::string& name) {
    std::vector<float> values(100, static_cast<float>(runtime.group().rank + 1));
    const std::int64_t count = 100;
    const rueda_tensor tensor{values.data(), &count, 1, static_cast<std::int32_t>(DType::float32)};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = RUEDA_SUM;
    core::Completion completion;
    runtime.start_allreduce(runtime.world(), nullptr, name, tensor, tensor, options, completion).throw_if_failed();
    while (!completion.done()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    completion.status().throw_if_failed();
    RUEDA_RANK_CHECK(values.front() == 10 && values.back() == 10);  // 1 + 2 + 3 + 4
}

TEST_CASE("the background thread of a leader is woken by messages of other hosts", "[threads]") {
    check_passed(run_clients(
        4, sleeping_config(),
        [](RankContext&, RuntimeClient& client) {
            for (int round = 0; round < 10; ++round) {
                if (round % 4 == client.rank()) {
                    std::this_thread::sleep_for(pause_in(round));
                }
                reduce_in_background(client.runtime(), "tensor" + std::to_string(round));
            }
        },
        {}, "aabb"));
}

TEST_CASE("the leaders of a process set sleep too", "[threads]") {
    // The ranks 1 and 3 lead the hosts of their set, and are no leaders in the job.
    check_passed(run_clients(
        4, sleeping_config(),
        [](RankContext&, RuntimeClient& client) {
            auto set = client.add_set({1, 3});
            set.status().throw_if_failed();
            if (set.value() != nullptr) {
                reduce_with_pauses(*set.value());
            }
            reduce_with_pauses(client);
        },
        {}, "aabb"));
}

TEST_CASE("leaders work over the inner transport if the setting says so", "[threads]") {
    base::Config config = test_config();
    config.leader_sockets = false;
    check_passed(run_clients(
        4, config, [](RankContext&, RuntimeClient& client) { reduce_with_pauses(client); }, {}, "aabb"));
}

}  // namespace
}  // namespace rueda::tests
