// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests an abort without free memory: every wait and every shutdown must end, whichever allocation fails.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "core/operations/requests.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/core/runtime/failing_memory.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using core::Completion;

constexpr const char* kReason = "rank 1 has ended the job: a reason that is too long to fit into a string object";

core::Request sum_of(float* value) {
    static const std::int64_t elements = 1;
    const rueda_tensor tensor{value, &elements, 1, static_cast<std::int32_t>(DType::float32)};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = static_cast<std::int32_t>(ReduceOp::sum);
    core::Request request;
    expect_ok(core::make_allreduce(tensor, tensor, options, request), "a request");
    return request;
}

/// The text must contain the part that is checked here. Other parts may be missing, because there was no memory for
/// them.
void expect_aborted(const Status& status) {
    RUEDA_RANK_CHECK(status.code() == ErrorCode::aborted);
    RUEDA_RANK_CHECK(status.message().find(kReason) != std::string::npos);
}

/// Three threads of rank 0 wait: one for an unnamed operation, and two for named operations. Then rank 1 aborts the
/// job. In each of the three threads, `successes` allocations succeed, and the next one fails.
void abort_without_memory(RankContext& context, RuntimeClient& client, std::uint64_t successes) {
    if (client.rank() == 1) {
        context.wait_for_phase(0, "pending");
        client.runtime().abort("a reason that is too long to fit into a string object");
        expect_ok(client.shutdown(), "shutdown");
        return;
    }
    std::vector<float> values(3, 1.0F);
    std::vector<Completion> completions(3);
    core::Runtime& runtime = client.runtime();
    for (std::size_t i = 0; i < completions.size(); ++i) {
        const std::string name = i == 0 ? "" : fmt::format("the gradient of the weights of layer {}", i);
        expect_ok(runtime.start(runtime.world(), nullptr, name, sum_of(&values[i]), completions[i]), "a start");
    }
    std::vector<Status> ends(completions.size());
    std::atomic<std::uint32_t> waiting{0};
    std::atomic<bool> has_failed{false};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < completions.size(); ++i) {
        threads.emplace_back([&, i] {
            const FailingAllocation failing(successes);
            waiting.fetch_add(1);
            ends[i] = runtime.wait(completions[i], -1);
            if (failing.has_failed()) {
                has_failed.store(true);
            }
        });
    }
    while (waiting.load() < threads.size()) {
        std::this_thread::yield();
    }
    context.phase("pending");
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const Status& end : ends) {
        expect_aborted(end);
    }
    float value = 0;
    Completion later;
    expect_aborted(runtime.start(runtime.world(), nullptr, "later", sum_of(&value), later));
    {
        const FailingAllocation failing(successes);
        try {
            static_cast<void>(runtime.shutdown());
            // In a program, the C interface turns the exception std::bad_alloc into an error. The caller may then call
            // shutdown again.
        } catch (const std::bad_alloc&) {
            RUEDA_RANK_CHECK(failing.has_failed());
        }
        has_failed.store(has_failed.load() || failing.has_failed());
    }
    static_cast<void>(runtime.shutdown());
    context.report("failed", has_failed.load() ? 1 : 0);
}

TEST_CASE("an abort is reported on a rank that has no memory for it", "[threads]") {
    std::uint64_t successes = 0;
    for (bool failed = true; failed; ++successes) {
        REQUIRE(successes < 200);
        const RanksResult result = run_clients(2, test_config(),
                                               [successes](RankContext& context, RuntimeClient& client) {
                                                   abort_without_memory(context, client, successes);
                                               },
                                               {.deadline = std::chrono::seconds(20)});
        INFO(successes << " allocations before the one that fails\n" << result.text());
        REQUIRE(result.passed());
        failed = result.ranks[0].value("failed") == "1";
    }
    CHECK(successes > 3);  // the waits really made allocations that could fail
}

/// From the abort until the end of every wait, all allocations of the process fail.
TEST_CASE("an abort is reported while no thread has memory", "[threads]") {
    std::atomic<int> about_to_wait{0};
    std::atomic<int> ended{0};
    std::atomic<bool> memory_is_back{false};
    check_passed(
        run_clients(2, test_config(),
                    [&](RankContext&, RuntimeClient& client) {
                        core::Runtime& runtime = client.runtime();
                        float value = 1;
                        Completion completion;
                        const std::string name = fmt::format("the gradient that only rank {} has", client.rank());
                        expect_ok(runtime.start(runtime.world(), nullptr, name, sum_of(&value), completion), "a start");
                        about_to_wait.fetch_add(1);
                        while (about_to_wait.load() < 2) {  // the test harness allocates memory
                            std::this_thread::yield();
                        }
                        std::optional<ExhaustedMemory> exhausted;
                        if (client.rank() == 1) {
                            exhausted.emplace();
                            client.runtime().control().abort.raise(ErrorCode::aborted, kReason);
                        }
                        const Status end = runtime.wait(completion, -1);
                        ended.fetch_add(1);
                        if (client.rank() == 1) {
                            while (ended.load() < 2) {
                                std::this_thread::yield();
                            }
                            exhausted.reset();
                            memory_is_back.store(true);
                        }
                        while (!memory_is_back.load()) {  // the rest of this function needs memory
                            std::this_thread::yield();
                        }
                        expect_aborted(end);
                    },
                    {.deadline = std::chrono::seconds(20)}));
}

}  // namespace
}  // namespace rueda::tests
