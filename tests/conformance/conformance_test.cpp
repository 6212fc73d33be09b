// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <future>
#include <numeric>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"

namespace rueda::tests {
namespace {

// The suite takes seconds. But if other programs keep the cores busy, every hand-over between ranks waits for a time
// slice.
constexpr std::chrono::seconds kDeadline{280};

RanksResult run_suite(int size, const base::Config& config, RanksAs as, const Layout& layout = {},
                      std::chrono::seconds deadline = kDeadline) {
    const std::vector<Scenario> scenarios = all_scenarios();
    return run_clients(
        size, config,
        [&](RankContext& context, RuntimeClient& client) {
            for (const Scenario& scenario : scenarios) {
                context.phase(scenario.name);
                run_scenarios(client, {&scenario, 1});
            }
            run_scenarios(client, join_scenarios());
        },
        {.as = as, .deadline = deadline}, layout);
}

void check_suite(RanksAs as) {
    const int size = GENERATE(range(1, 9));
    // The usual settings and the tiny ones alternate with the number of ranks. Two and three ranks, the most common and
    // the first odd number, get both.
    const bool tiny = GENERATE(false, true);
    if (size > 3 && tiny != (size % 2 == 0)) {
        return;
    }
    const RanksResult result = run_suite(size, tiny ? tiny_config() : test_config(), as);
    INFO(size << " ranks, " << (tiny ? "tiny" : "usual") << " settings\n" << result.text());
    CHECK(result.passed());
}

/// Four ranks on two NUMA nodes. Averages of small whole numbers over four ranks are exact in every order and dtype.
void check_suite_by_nodes(RanksAs as) {
    base::Config config = tiny_config();
    config.numa_first = true;
    config.topology = "numa:2 l2:2 core:1 pu:1";
    const RanksResult result = run_suite(4, config, as);
    INFO(result.text());
    CHECK(result.passed());
}

/// One rank per host, several, different numbers, and ranks assigned to hosts in turn; enough hosts for two levels of
/// the tree.
void check_suite_on_hosts() {
    const auto [layout, tiny] = GENERATE(table<Layout, bool>(
        {{"ab", false}, {"ab", true}, {"aabb", false}, {"abab", true}, {"abbccc", true}, {"abcdefghijk", false}}));
    const RanksResult result =
        run_suite(static_cast<int>(layout.size()), tiny ? tiny_config() : test_config(), RanksAs::threads, layout);
    INFO(layout << ", " << (tiny ? "tiny" : "usual") << " settings\n" << result.text());
    CHECK(result.passed());
}

/// Runs the suite in the world and in a set of all ranks but the last, at the same time, in two threads of each rank.
/// The sets use operations with the same names, and neither set may wait for the other.
RanksResult run_suite_in_two_sets(int size, const base::Config& config, RanksAs as, const Layout& layout = {}) {
    return run_clients(
        size, config,
        [&](RankContext& context, RuntimeClient& world) {
            std::vector<int> ranks(static_cast<std::size_t>(size - 1));
            std::iota(ranks.begin(), ranks.end(), 0);
            auto set = world.add_set(ranks);
            set.status().throw_if_failed();
            context.phase("scenarios");
            std::future<void> in_set = std::async(std::launch::async, [&set] {
                if (set.value() != nullptr) {
                    run_scenarios(*set.value(), all_scenarios());
                }
            });
            run_scenarios(world, all_scenarios());
            in_set.get();
        },
        {.as = as, .deadline = kDeadline}, layout);
}

void check_suite_in_two_sets(RanksAs as) {
    const RanksResult result = run_suite_in_two_sets(3, test_config(), as);
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("conformance in a process set beside the world with ranks as threads", "[threads]") {
    check_suite_in_two_sets(RanksAs::threads);
}

TEST_CASE("conformance in a process set beside the world with ranks as processes", "[processes]") {
    check_suite_in_two_sets(RanksAs::processes);
}

TEST_CASE("conformance in a process set of several hosts beside the world", "[threads][hosts]") {
    const RanksResult result = run_suite_in_two_sets(4, tiny_config(), RanksAs::threads, "aabb");
    INFO(result.text());
    CHECK(result.passed());
}

/// Layouts that are not run with the whole suite, because that would take too long.
TEST_CASE("groups and roots on one host and several", "[threads][hosts][groups]") {
    const Layout layout = GENERATE("a", "aa", "aaaa", "aaaaaaaaa", "ab", "aaab", "abcd");
    const RanksResult result = run_clients(
        static_cast<int>(layout.size()), tiny_config(),
        [&](RankContext& context, RuntimeClient& client) {
            context.phase("groups");
            run_scenarios(client, group_scenarios());
            context.phase("roots");
            run_scenarios(client, root_scenarios());
        },
        {.as = RanksAs::threads, .deadline = std::chrono::seconds(100)}, layout);
    INFO(layout << "\n" << result.text());
    CHECK(result.passed());
}

/// Everything behaves as without checksums, although each allreduce and broadcast is followed by an operation of Rueda
/// itself.
TEST_CASE("conformance with checksums and call sites", "[threads][checks]") {
    base::Config config = GENERATE(false, true) ? tiny_config() : test_config();
    config.verify = GENERATE(1U, 3U);
    config.call_sites = true;
    const Layout layout = GENERATE("", "aab");
    const RanksResult result = run_suite(3, config, RanksAs::threads, layout);
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("conformance on several hosts with ranks as threads", "[threads][hosts]") { check_suite_on_hosts(); }

TEST_CASE("conformance with ranks as threads", "[threads]") { check_suite(RanksAs::threads); }

TEST_CASE("conformance with ranks as processes", "[processes]") { check_suite(RanksAs::processes); }

void check_wake_ups(int size, RanksAs as) {
    constexpr std::chrono::seconds kHangs{100};
    const RanksResult result = run_suite(size, patient_config(), as, {}, kHangs);
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("conformance without lost wake-ups with ranks as threads", "[wakeups]") {
    check_wake_ups(GENERATE(2, 3), RanksAs::threads);
}

TEST_CASE("conformance without lost wake-ups with ranks as processes", "[wakeups_of_processes]") {
    check_wake_ups(2, RanksAs::processes);
}

TEST_CASE("conformance by NUMA node with ranks as threads", "[threads]") { check_suite_by_nodes(RanksAs::threads); }

TEST_CASE("conformance by NUMA node with ranks as processes", "[processes]") {
    check_suite_by_nodes(RanksAs::processes);
}

}  // namespace
}  // namespace rueda::tests
