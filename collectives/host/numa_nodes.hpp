// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/control_block.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// Which members of a set lie on which NUMA node, and so in which order what they contribute is combined: by rank, or,
/// where that was asked for and there is something to gain, the members of each node first. Nodes are numbered by their
/// first member. The same on all members (docs/design/collectives.md, "NUMA nodes"). Threads: a value.
class NumaNodes {
public:
    /// Nobody first.
    NumaNodes() = default;
    /// From the number of every member's node. With one node, or one member on each, nobody is first.
    explicit NumaNodes(std::span<const std::int32_t> node_of_member);

    [[nodiscard]] bool combine_first() const { return count_ > 0; }

    // The rest but reduce() is for where they do.
    [[nodiscard]] std::uint32_t count() const { return count_; }
    /// In rank order.
    [[nodiscard]] std::span<const std::uint32_t> members_of(std::uint32_t node) const {
        return {members_.data() + begins_[node], sizes_[node]};
    }
    [[nodiscard]] std::uint32_t node_of(std::uint32_t member) const { return nodes_[member]; }
    /// Among the members of its node.
    [[nodiscard]] std::uint32_t index_of(std::uint32_t member) const { return indices_[member]; }
    /// Its place when the first members of all nodes are counted, then the second ones, and so on.
    [[nodiscard]] std::uint32_t turn_of(std::uint32_t member) const { return turns_[member]; }

    /// ops::reduce() in this order; of adasum by rank. `sources`: of all members, by rank.
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
