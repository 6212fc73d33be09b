// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests operations that find no memory at their start: they must start nothing, and the caller may start them again.
#include <catch2/catch.hpp>

#include "core/operations/requests.hpp"
#include "rueda/rueda.h"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/core/runtime/failing_memory.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using core::Completion;

core::Request allreduce_of(float* value, std::int64_t elements) {
    const rueda_tensor tensor{value, &elements, 1, static_cast<std::int32_t>(DType::float32)};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = static_cast<std::int32_t>(ReduceOp::sum);
    core::Request request;
    expect_ok(core::make_allreduce(tensor, tensor, options, request), "a request");
    return request;
}

/// Repeats the start until it succeeds. In each attempt, one more allocation succeeds than in the attempt before.
/// Returns the number of failed attempts.
template <class Start>
std::uint64_t start_at_last(Start&& start) {
    for (std::uint64_t successes = 0;; ++successes) {
        Status status;
        bool failed = false;
        {
            const FailingAllocation failing(successes);
            status = start();
            failed = failing.has_failed();
        }
        if (status.is_ok()) {
            RUEDA_RANK_CHECK(!failed);
            return successes;
        }
        RUEDA_RANK_CHECK(failed);
        expect_failure(status, ErrorCode::resource_exhausted, "a start without memory");
    }
}

/// The name is too long for the space inside a std::string, so each copy allocates.
std::string name_of(int i) { return fmt::format("the gradient of the weights of layer {}", i); }

void named(RankContext&, RuntimeClient& client) {
    for (int round = 0; round < 2; ++round) {  // the names are new in round 1, and have slots in round 2
        for (int i = 0; i < 20; ++i) {
            float value = static_cast<float>(client.rank() + i);
            const core::Request request = allreduce_of(&value, 1);
            Completion completion;
            const std::string name = name_of(i);
            const std::uint64_t failures = start_at_last(
                [&] { return client.runtime().start(client.runtime().world(), nullptr, name, request, completion); });
            RUEDA_RANK_CHECK((failures > 0) == (round == 0));
            expect_ok(client.runtime().wait(completion, -1), "the operation");
            RUEDA_RANK_EQUAL(value, static_cast<float>(1 + 2 * i));
        }
    }
}

/// Starts more operations than there are slots, so that some of them wait in their rank's queue.
void unnamed(RankContext& context, RuntimeClient& client) {
    constexpr int kOperations = 200;
    std::vector<float> values(kOperations);
    std::vector<std::unique_ptr<Completion>> completions;
    std::uint64_t failures = 0;
    if (client.rank() == 1) {
        context.wait_for_phase(0, "waiting");
    }
    for (float& value : values) {
        value = static_cast<float>(&value - values.data() + client.rank());
        const core::Request request = allreduce_of(&value, 1);
        completions.push_back(std::make_unique<Completion>());
        failures += start_at_last([&] {
            return client.runtime().start(client.runtime().world(), nullptr, "", request, *completions.back());
        });
    }
    context.phase("waiting");
    RUEDA_RANK_CHECK(client.rank() == 1 || failures > 0);
    for (std::size_t i = 0; i < completions.size(); ++i) {
        expect_ok(client.runtime().wait(*completions[i], -1), "the operation");
        RUEDA_RANK_EQUAL(values[i], static_cast<float>(1 + 2 * i));
    }
}

/// Rueda copies the splits into the announcement. If an operation has to wait, Rueda makes another copy of its splits.
void unnamed_alltoall(RankContext& context, RuntimeClient& client) {
    constexpr int kOperations = 100;
    std::vector<std::int32_t> values(static_cast<std::size_t>(kOperations) * 2);
    std::vector<std::int32_t> results(values.size());
    std::vector<std::unique_ptr<Completion>> completions;
    std::uint64_t failures = 0;
    if (client.rank() == 1) {
        context.wait_for_phase(0, "waiting");
    }
    const rueda_options options = RUEDA_OPTIONS_INIT;
    for (std::size_t i = 0; i < kOperations; ++i) {
        const std::int64_t rows = 2;
        values[2 * i] = static_cast<std::int32_t>(10 * i) + client.rank();
        values[2 * i + 1] = values[2 * i] + 1000;
        const rueda_tensor in{&values[2 * i], &rows, 1, RUEDA_INT32};
        const rueda_tensor out{&results[2 * i], &rows, 1, RUEDA_INT32};
        core::Request request;
        expect_ok(core::make_alltoall(in, nullptr, 0, &out, 2, options, request), "a request");
        completions.push_back(std::make_unique<Completion>());
        failures += start_at_last([&] {
            return client.runtime().start(client.runtime().world(), nullptr, "", request, *completions.back());
        });
    }
    context.phase("waiting");
    RUEDA_RANK_CHECK(failures >= 64);  // each of the 64 unnamed slots had at least one failed start
    for (std::size_t i = 0; i < kOperations; ++i) {
        expect_ok(client.runtime().wait(*completions[i], -1), "the operation");
        const auto from_first = static_cast<std::int32_t>(10 * i) + 1000 * client.rank();
        RUEDA_RANK_EQUAL(results[2 * i], from_first);
        RUEDA_RANK_EQUAL(results[2 * i + 1], from_first + 1);
    }
}

void group(RankContext&, RuntimeClient& client) {
    constexpr int kMembers = 50;
    std::vector<float> values(kMembers);
    std::vector<core::Request> requests;
    std::vector<std::string> names;
    for (int i = 0; i < kMembers; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<float>(client.rank() + i);
        requests.push_back(allreduce_of(&values[static_cast<std::size_t>(i)], 1));
        names.push_back(name_of(i));
    }
    Completion completion(kMembers);
    const std::uint64_t failures = start_at_last([&] {
        return client.runtime().start_group(client.runtime().world(), "the gradients", names, requests, completion);
    });
    RUEDA_RANK_CHECK(failures >= kMembers);
    expect_ok(client.runtime().wait(completion, -1), "the group");
    for (int i = 0; i < kMembers; ++i) {
        RUEDA_RANK_EQUAL(values[static_cast<std::size_t>(i)], static_cast<float>(1 + 2 * i));
    }
}

void check_passed(void (*body)(RankContext&, RuntimeClient&)) { check_passed(run_clients(2, test_config(), body)); }

/// Rank 0 starts a job with a process set. Meanwhile, `successes` of its allocations succeed, and the next one fails.
/// Then all ranks start a job in which no allocation fails.
void init_with_a_set(RankContext& context, std::uint64_t successes) {
    const std::int32_t members[] = {0, 1};
    const rueda_rank_list list{members, 2};
    rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
    std::int32_t id = -1;
    options.process_sets = &list;
    options.process_set_count = 1;
    options.process_set_ids = &id;
    int status = RUEDA_OK;
    if (context.rank() == 0) {
        std::uint64_t allocations = 0;
        bool has_failed = false;
        {
            const FailingAllocation failing(successes);
            status = rueda_init_with(&options);
            has_failed = failing.has_failed();
            allocations = has_failed ? 0 : failing.allocations();
        }
        // If only a log line could not be written, init still succeeds.
        RUEDA_RANK_CHECK(has_failed || status == RUEDA_OK);
        context.report("allocations", std::to_string(allocations));
    } else {
        status = rueda_init_with(&options);
    }
    context.report("status", std::to_string(status));
    RUEDA_RANK_EQUAL(rueda_initialized(), status == RUEDA_OK ? 1 : 0);
    // Rank 1 may have finished init before rank 0 gave up. The job of rank 1 is then aborted. If no other call has
    // reported the abort, shutdown() does.
    const int left = rueda_shutdown();
    // shutdown() reports an abort with the error code of its cause, which may be RUEDA_RESOURCE_EXHAUSTED.
    const bool is_aborted = left == RUEDA_ABORTED || left == RUEDA_RESOURCE_EXHAUSTED;
    RUEDA_RANK_CHECK(left == RUEDA_OK || (is_aborted && status == RUEDA_OK && context.rank() != 0));
    const int again = rueda_init();
    context.report("again", std::to_string(again));
    if (again == RUEDA_OK) {
        int size = 0;
        RUEDA_RANK_EQUAL(rueda_size(&size), static_cast<int>(RUEDA_OK));
        RUEDA_RANK_EQUAL(size, 3);
        RUEDA_RANK_EQUAL(rueda_barrier(nullptr), static_cast<int>(RUEDA_OK));
        RUEDA_RANK_EQUAL(rueda_shutdown(), static_cast<int>(RUEDA_OK));
    }
}

TEST_CASE("a rank that has no memory for the first process sets keeps nobody waiting", "[processes]") {
    const auto run = [](std::uint64_t successes) {
        RanksResult result =
            run_public_ranks(3, [successes](RankContext& context) { init_with_a_set(context, successes); },
                             {.deadline = std::chrono::seconds(30)});
        INFO(successes << " allocations before the one that fails\n" << result.text());
        CHECK(result.passed());
        return result;
    };
    constexpr std::uint64_t kLots = 1'000'000'000;
    const std::uint64_t allocations = std::stoull(run(kLots).ranks[0].value("allocations"));
    std::uint64_t failures = 0;
    for (std::uint64_t before = 1; before <= 200; before += before < 20 ? 1 : 20) {
        const RanksResult result = run(allocations - before);
        // The first job was aborted, so the ranks cannot begin another job.
        const bool is_over = result.ranks[0].value("again") != "0";
        CHECK(result.ranks[1].value("again") == result.ranks[0].value("again"));
        CHECK(result.ranks[2].value("again") == result.ranks[0].value("again"));
        CHECK((result.ranks[0].value("status") == "0" ||
               result.ranks[0].value("status") == std::to_string(RUEDA_RESOURCE_EXHAUSTED) || is_over));
        failures += result.ranks[0].value("status") == "0" ? 0U : 1U;
    }
    CHECK(failures > 0);
}

TEST_CASE("no memory for a named operation", "[threads]") { check_passed(named); }
TEST_CASE("no memory for an unnamed operation", "[threads]") { check_passed(unnamed); }
TEST_CASE("no memory for an unnamed operation with splits", "[threads]") { check_passed(unnamed_alltoall); }
TEST_CASE("no memory for a group", "[threads]") { check_passed(group); }

}  // namespace
}  // namespace rueda::tests
