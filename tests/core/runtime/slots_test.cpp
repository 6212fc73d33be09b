// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"

namespace rueda::tests {
namespace {

base::Config few_slots() {
    base::Config config = test_config();
    config.slots = 80;  // 64 of them for unnamed operations
    config.slots_max = 96;
    return config;
}

/// 600 names, 11 of them pending at a time, through at most 32 slots.
TEST_CASE("slots are taken back", "[threads]") {
    const int size = GENERATE(1, 2, 4);
    const RanksResult result = run_clients(size, few_slots(), [](RankContext&, RuntimeClient& client) {
        for (const Scenario& scenario : naming_scenarios()) {
            const std::string name = scenario.name;
            if (name == "names: many" || name == "names: changing shapes" || name == "names: long") {
                run_scenarios(client, {&scenario, 1});
            }
        }
    });
    INFO(result.text());
    CHECK(result.passed());
}

/// Each rank is pending on names of its own: to wait would last for ever.
void exhaust(RankContext&, RuntimeClient& client) {
    constexpr std::size_t kNames = 40;
    std::vector<float> values(kNames);
    std::vector<PendingPointer> pending;
    Status failure;
    for (std::size_t i = 0; i < kNames && failure.is_ok(); ++i) {
        const Tensor tensor{&values[i], DType::float32, {1}};
        auto started = client.start_allreduce(fmt::format("{} of {}", i, client.rank()), tensor, tensor, {});
        failure = started.status();
        if (started.is_ok()) {
            pending.push_back(std::move(started).value());
        }
    }
    const auto check = [](const std::string& text) {
        RUEDA_RANK_CHECK(text.find("all 96 slots for tensor names are ") == 0);
        RUEDA_RANK_CHECK(text.find("or raise RUEDA_SLOTS_MAX") != std::string::npos);
    };
    if (!failure.is_ok()) {  // another rank found it out before
        check(expect_failure(failure, ErrorCode::resource_exhausted, "a start"));
    }
    for (const auto& one : pending) {
        check(expect_failure(one->wait(), ErrorCode::resource_exhausted, "a pending operation"));
    }
    float value = 0;
    const Tensor tensor{&value, DType::float32, {1}};
    expect_failure(client.allreduce("later", tensor, tensor, {}), ErrorCode::resource_exhausted, "a later operation");
}

TEST_CASE("no slot is left", "[threads]") {
    for (int round = 0; round < 5; ++round) {
        const RanksResult result = run_clients(2 + round % 3, few_slots(), exhaust);
        INFO(result.text());
        CHECK(result.passed());
    }
}

TEST_CASE("no slot is left, in processes", "[processes]") {
    const RanksResult result = run_clients(3, few_slots(), exhaust, {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.passed());
}

}  // namespace
}  // namespace rueda::tests
