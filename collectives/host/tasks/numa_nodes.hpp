// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/shared_memory/control_block.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// Which members of a set are on which NUMA node, and therefore the order in which the members' inputs are combined.
/// The order is by rank; or, if the user asked for it and it can help, the members of each node are combined first.
/// Nodes are numbered by their first member. The object is the same on all members (docs/design/collectives.md, "NUMA
/// nodes"). Threads: a value.
class NumaNodes {
public:
    /// The order is by rank; no members are combined first.
    NumaNodes() = default;
    /// Takes the number of each member's node. If there is only one node, or only one member on each node, the order is
    /// by rank.
    explicit NumaNodes(std::span<const std::int32_t> node_of_member);

    [[nodiscard]] bool combine_first() const { return count_ > 0; }

    // All functions except reduce() may be called only if the members of a node are combined first.
    [[nodiscard]] std::uint32_t count() const { return count_; }
    /// In rank order.
    [[nodiscard]] std::span<const std::uint32_t> members_of(std::uint32_t node) const {
        return {members_.data() + begins_[node], sizes_[node]};
    }
    [[nodiscard]] std::uint32_t node_of(std::uint32_t member) const { return nodes_[member]; }
    /// The member's index among the members of its node.
    [[nodiscard]] std::uint32_t index_of(std::uint32_t member) const { return indices_[member]; }
    /// The member's position when the first members of all nodes are counted first, then the second ones, and so on.
    [[nodiscard]] std::uint32_t turn_of(std::uint32_t member) const { return turns_[member]; }

    /// Calls ops::reduce() in this order, or by rank for adasum. `sources` are those of all members, by rank.
    void reduce(const ops::Reduction& reduction, std::span<const std::byte* const> sources,
                std::span<std::byte* const> destinations, std::size_t count,
                ops::Store store = ops::Store::cached) const {
        if (!combine_first()) [[likely]] {
            ops::reduce(reduction, sources, destinations, count, store);
        } else {
            reduce_by_node(reduction, sources, destinations, count, store);
        }
    }

private:
    using PerMember = std::array<std::uint32_t, base::kMaxLocalRanks>;

    void reduce_by_node(const ops::Reduction& reduction, std::span<const std::byte* const> sources,
                        std::span<std::byte* const> destinations, std::size_t count, ops::Store store) const;

    std::uint32_t count_ = 0;
    PerMember begins_{};   // by node, in members_
    PerMember sizes_{};    // by node
    PerMember members_{};  // node by node
    PerMember nodes_{};
    PerMember indices_{};
    PerMember turns_{};
};

}  // namespace rueda::collectives
