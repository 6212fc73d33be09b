// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/numa_nodes.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace rueda::collectives {
namespace {

NumaNodes nodes_of(const std::vector<std::int32_t>& node_of_member) { return NumaNodes(node_of_member); }

std::vector<std::uint32_t> members_of(const NumaNodes& nodes, std::uint32_t node) {
    return {nodes.members_of(node).begin(), nodes.members_of(node).end()};
}

}  // namespace

TEST_CASE("nobody combines first where there is nothing to gain", "[unit]") {
    CHECK_FALSE(NumaNodes().combine_first());
    CHECK_FALSE(nodes_of({}).combine_first());
    CHECK_FALSE(nodes_of({0}).combine_first());
    CHECK_FALSE(nodes_of({7, 7, 7}).combine_first());     // one node
    CHECK_FALSE(nodes_of({0, 1, 2, 3}).combine_first());  // one rank on each node
}

TEST_CASE("nodes are in the order of their first members, members in rank order", "[unit]") {
    const NumaNodes nodes = nodes_of({5, 0, 5, 3, 0, 5});
    REQUIRE(nodes.combine_first());
    CHECK(nodes.count() == 3);
    CHECK(members_of(nodes, 0) == std::vector<std::uint32_t>{0, 2, 5});
    CHECK(members_of(nodes, 1) == std::vector<std::uint32_t>{1, 4});
    CHECK(members_of(nodes, 2) == std::vector<std::uint32_t>{3});
    CHECK(nodes.node_of(4) == 1);
    CHECK(nodes.index_of(5) == 2);
    // First members are 0, 1, 3; second ones 2, 4; the only third one is 5.
    const std::vector<std::uint32_t> turns = {0, 1, 3, 2, 4, 5};
    for (std::uint32_t member = 0; member < 6; ++member) {
        CHECK(nodes.turn_of(member) == turns[member]);
    }
}

}  // namespace rueda::collectives
