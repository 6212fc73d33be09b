// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests leaders that sleep until a message of another host wakes them. The ranks are threads on simulated hosts, whose
// leaders connect over the loopback.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
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

/// Returns how late one rank is in a round. Usually this is 30 ms, which is longer than a waiting thread spins. In one
/// round it is more than a second. For one second after a batch, a leader also wakes up by itself, so that MPI can
/// send. After this second, only a message of another host can wake the leader.
std::chrono::milliseconds pause_in(int round) { return std::chrono::milliseconds(round == 5 ? 1200 : 30); }

/// In each round, one rank comes late. When it comes, the other ranks are already asleep.
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
    runtime
        .start(runtime.world(), nullptr, name,
               {.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor}, options, completion)
        .throw_if_failed();
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

TEST_CASE("background threads of two leaders wake each other for a tensor that was called before", "[threads]") {
    // From the second round on, the root offers the tensor to the other leader. This leader decides itself when the
    // last rank of its host announces the tensor.
    check_passed(run_clients(
        4, sleeping_config(),
        [](RankContext&, RuntimeClient& client) {
            for (int round = 0; round < 12; ++round) {
                if ((round + 3) % 5 == client.rank()) {
                    std::this_thread::sleep_for(pause_in(round));
                }
                reduce_in_background(client.runtime(), "tensor");
            }
        },
        {}, "aabb"));
}

TEST_CASE("a shutdown on the root's host takes effect although the other host announces nothing", "[threads]") {
    check_passed(run_clients(
        4, sleeping_config(),
        [](RankContext& context, RuntimeClient& client) {
            for (int round = 0; round < 3; ++round) {
                reduce(client, "tensor", round);
            }
            if (client.rank() > 1) {
                context.wait_for_phase(1, "failed");
                return;
            }
            std::vector<float> values(100);
            const Tensor tensor{values.data(), DType::float32, {100}};
            auto pending = expect_value(client.start_allreduce("tensor", tensor, tensor, {ReduceOp::sum}), "tensor");
            if (client.rank() == 0) {
                // The root offers the tensor to the other host in this time.
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                expect_ok(client.shutdown(), "shutdown");
                return;
            }
            expect_failure(pending->wait(), ErrorCode::aborted, "rank 0 has shut down");
            context.phase("failed");
        },
        {}, "aabb"));
}

TEST_CASE("the leaders of a process set sleep too", "[threads]") {
    // Ranks 1 and 3 are the leaders of their hosts in this set, although they are no leaders in the job.
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

/// Returns how often the threads of this process with the given name have gone to sleep so far.
std::uint64_t sleeps_of(const std::string& name) {
    std::uint64_t sleeps = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        bool is_wanted = false;
        for (std::string line; std::getline(status, line);) {
            is_wanted = is_wanted || line == "Name:\t" + name;
            if (is_wanted && line.starts_with("voluntary_ctxt_switches:")) {
                sleeps += std::stoull(line.substr(line.find(':') + 1));
            }
        }
    }
    return sleeps;
}

TEST_CASE("an idle leader wakes up twice per second, and heartbeats of others do not wake it", "[threads]") {
    constexpr std::uint64_t kLeaders = 2;
    constexpr std::chrono::milliseconds kIdle{2000};
    base::Config config = test_config();
    config.liveness_seconds = 0.2;
    config.host_timeout_seconds = 3;
    check_passed(run_clients(
        kLeaders, config,
        [&](RankContext& context, RuntimeClient& client) {
            context.phase("initialised");
            context.wait_for_phase(1 - client.rank(), "initialised");
            if (client.rank() == 0) {
                const std::uint64_t before = sleeps_of("rueda") + sleeps_of("rueda-sockets");
                std::this_thread::sleep_for(kIdle);
                const std::uint64_t sleeps = sleeps_of("rueda") + sleeps_of("rueda-sockets") - before;
                // Each leader wakes up four times by its timer. The limit is higher for two reasons. The leader's two
                // threads may be about to sleep when the measurement begins. On a busy machine, two heartbeats may
                // arrive between two turns, and together they wake both threads.
                RUEDA_RANK_CHECK(sleeps <= kLeaders * 9);
            }
            context.phase("measured");
            context.wait_for_phase(1 - client.rank(), "measured");
            reduce(client, "afterwards", 1);
        },
        {}, "ab"));
}

TEST_CASE("leaders work over the inner transport if the setting says so", "[threads]") {
    base::Config config = test_config();
    config.leader_sockets = false;
    check_passed(run_clients(
        4, config, [](RankContext&, RuntimeClient& client) { reduce_with_pauses(client); }, {}, "aabb"));
}

}  // namespace
}  // namespace rueda::tests
