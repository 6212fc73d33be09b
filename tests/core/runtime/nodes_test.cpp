// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// How the ranks find out which rank is on which NUMA node. Either all ranks know it, or no rank starts.
#include <catch2/catch.hpp>

#include "collectives/local_group.hpp"
#include "core/setup/host_nodes.hpp"
#include "tests/conformance/jobs.hpp"

namespace rueda::tests {
namespace {

base::Config by_node(const std::string& topology) {
    base::Config config = test_config();
    config.numa_first = true;
    config.topology = topology;
    return config;
}

/// Starts a job in which rank 1 has different settings. Every rank reports how its init ended.
RanksResult start_with(const base::Config& usual, const base::Config& of_rank_1) {
    return run_ranks(3, [&](RankContext& context) {
        context.phase("init");
        auto plane = context.open_control_plane();
        plane.status().throw_if_failed();
        auto client = RuntimeClient::create(context.rank() == 1 ? of_rank_1 : usual, std::move(plane).value());
        context.report("code", static_cast<int>(client.status().code()));
        context.report("text", client.status().message());
        if (client.is_ok()) {
            client.value()->shutdown().throw_if_failed();
        }
    });
}

void check_refused(const RanksResult& result, const std::string& text) {
    INFO(result.text());
    REQUIRE(result.passed());
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("code") == std::to_string(static_cast<int>(ErrorCode::invalid_argument)));
        CHECK(rank.value("text").find(text) != std::string::npos);
        CHECK(rank.value("text").find('\n') == std::string::npos);
    }
}

/// What nodes_of_host() returns to ranks that are bound to these nodes; -1 means a rank without a binding.
struct Found {
    bool combine_first = false;
    std::vector<std::uint32_t> node_of_rank;
    std::string warning;
};
std::vector<Found> find_nodes(const base::Config& config, const std::vector<int>& bound_to) {
    std::vector<Found> found(bound_to.size());
    const RanksResult result = run_ranks(static_cast<int>(bound_to.size()), [&](RankContext& context) {
        auto plane = context.open_control_plane();
        plane.status().throw_if_failed();
        const auto group = collectives::find_local_group(*plane.value());
        group.status().throw_if_failed();
        base::Topology topology;
        topology.numa_nodes = {0, 1, 4};
        const auto rank = static_cast<std::size_t>(context.rank());
        if (bound_to[rank] >= 0) {
            topology.own_node = bound_to[rank];
        }
        const auto nodes = core::nodes_of_host(config, topology, *plane.value(), group.value());
        nodes.status().throw_if_failed();
        Found& mine = found[rank];
        mine.warning = nodes.value().warning;
        mine.combine_first = nodes.value().nodes.combine_first();
        for (std::uint32_t other = 0; mine.combine_first && other < bound_to.size(); ++other) {
            mine.node_of_rank.push_back(nodes.value().nodes.node_of(other));
        }
        plane.value()->close(false);
    });
    INFO(result.text());
    REQUIRE(result.passed());
    for (const Found& other : found) {  // all ranks know the same
        CHECK(other.combine_first == found[0].combine_first);
        CHECK(other.node_of_rank == found[0].node_of_rank);
        CHECK(other.warning == found[0].warning);
    }
    return found;
}

using Ranks = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("ranks lie where they are bound to", "[threads]") {
    const Found found = find_nodes(by_node(""), {4, 0, 4, 0, 0})[0];
    CHECK(found.combine_first);
    CHECK(found.node_of_rank == Ranks{0, 1, 0, 1, 1});
    CHECK(found.warning.empty());
    CHECK_FALSE(find_nodes(by_node(""), {4, 4, 4})[0].combine_first);
    CHECK_FALSE(find_nodes(test_config(), {4, 0, 4, 0})[0].combine_first);  // the setting does not ask for it
}

TEST_CASE("ranks bound to no single node: rank order, and a note", "[threads]") {
    const Found found = find_nodes(by_node(""), {0, -1, 1, -1})[0];
    CHECK_FALSE(found.combine_first);
    CHECK(
        found.warning ==
        "RUEDA_NUMA_FIRST has no effect: ranks 1, 3 are bound to the cores of no single NUMA node; bind ranks to cores "
        "or nodes, e.g. with mpirun --bind-to numa");
    CHECK(find_nodes(test_config(), {0, -1})[0].warning.empty());
}

TEST_CASE("in a described machine ranks are dealt to the nodes by local rank", "[threads]") {
    // find_nodes() gets a description of a machine with three nodes.
    CHECK(find_nodes(by_node("numa:3 pu:1"), {0, 0, 0, 0, 0})[0].node_of_rank == Ranks{0, 0, 1, 1, 2});
    CHECK(find_nodes(by_node("numa:3 pu:1"), {-1, -1, -1, -1, -1, -1})[0].node_of_rank == Ranks{0, 0, 1, 1, 2, 2});
    CHECK_FALSE(find_nodes(by_node("numa:3 pu:1"), {0, 0, 0})[0].combine_first);  // one rank on each node
}

TEST_CASE("ranks with other settings are refused by all", "[threads]") {
    const std::string two = "numa:2 pu:2";
    check_refused(start_with(by_node(two), test_config()),
                  "RUEDA_NUMA_FIRST is '1' on ranks 0, 2 and '0' on rank 1; expected the same on all ranks");
    check_refused(start_with(test_config(), by_node("")),
                  "RUEDA_NUMA_FIRST is '0' on ranks 0, 2 and '1' on rank 1; expected the same on all ranks");
    check_refused(start_with(by_node(two), by_node("numa:3 pu:1")),
                  "RUEDA_TOPOLOGY is 'numa:3 pu:1' on rank 1 and 'numa:2 pu:2' on rank 0; expected the same on all "
                  "ranks");
}

TEST_CASE("a description that is none ends init on all ranks", "[threads]") {
    base::Config bad = test_config();
    bad.topology = "numa:two";
    const RanksResult result = start_with(test_config(), bad);
    check_refused(result, "RUEDA_TOPOLOGY is 'numa:two'; expected hwloc's synthetic description");
    CHECK(result.ranks[0].value("text").starts_with("rank 1: "));
    CHECK(result.ranks[1].value("text").starts_with("RUEDA_TOPOLOGY"));
    check_refused(start_with(bad, bad), "RUEDA_TOPOLOGY is 'numa:two'");
}

TEST_CASE("without the order by nodes, descriptions may differ", "[threads]") {
    base::Config other = test_config();
    other.topology = "numa:2 l2:2(size=131072) pu:1";
    const RanksResult result = start_with(test_config(), other);
    INFO(result.text());
    REQUIRE(result.passed());
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("code") == "0");
    }
}

}  // namespace rueda::tests
