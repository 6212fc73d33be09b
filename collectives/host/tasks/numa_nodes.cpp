// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/numa_nodes.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "ops/groups.hpp"

namespace rueda::collectives {

static_assert(base::kMaxLocalRanks <= ops::kMostInGroups);

NumaNodes::NumaNodes(std::span<const std::int32_t> node_of_member) {
    const auto members = static_cast<std::uint32_t>(node_of_member.size());
    RUEDA_ASSERT(members <= base::kMaxLocalRanks);
    std::uint32_t nodes = 0;
    for (std::uint32_t member = 0; member < members; ++member) {
        const auto* const known =
            std::find(node_of_member.data(), node_of_member.data() + member, node_of_member[member]);
        const auto first = static_cast<std::uint32_t>(known - node_of_member.data());
        nodes_[member] = first < member ? nodes_[first] : nodes++;
        indices_[member] = sizes_[nodes_[member]]++;
    }
    if (nodes < 2 || nodes == members) {
        return;
    }
    count_ = nodes;
    for (std::uint32_t node = 1; node < nodes; ++node) {
        begins_[node] = begins_[node - 1] + sizes_[node - 1];
    }
    for (std::uint32_t member = 0; member < members; ++member) {
        members_[begins_[nodes_[member]] + indices_[member]] = member;
    }
    std::uint32_t turn = 0;
    for (std::uint32_t index = 0; turn < members; ++index) {
        for (std::uint32_t node = 0; node < nodes; ++node) {
            if (index < sizes_[node]) {
                turns_[members_of(node)[index]] = turn++;
            }
        }
    }
}

void NumaNodes::reduce_by_node(const ops::Reduction& reduction, std::span<const std::byte* const> sources,
                               std::span<std::byte* const> destinations, std::size_t count, ops::Store store) const {
    if (reduction.op == ReduceOp::adasum) {
        ops::reduce(reduction, sources, destinations, count, store);  // adasum's tree is by rank
        return;
    }
    std::array<const std::byte*, base::kMaxLocalRanks> grouped;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        grouped[i] = sources[members_[i]];
    }
    ops::reduce_in_groups(reduction, {grouped.data(), sources.size()}, {sizes_.data(), count_}, destinations, count,
                          store);
}

}  // namespace rueda::collectives
