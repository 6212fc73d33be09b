// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/host_nodes.hpp"

#include <cstring>
#include <span>
#include <vector>

#include "base/text.hpp"

namespace rueda::core {
namespace {

constexpr std::int32_t kNoNode = -1;

/// What a rank tells the others; the text of RUEDA_TOPOLOGY comes after it.
struct NodeFacts {
    std::int32_t node;
};
static_assert(std::is_trivially_copyable_v<NodeFacts>);

struct RankFacts {
    NodeFacts facts{};
    std::string topology;
};

/// In a described machine the ranks are dealt to the nodes; in the real one each lies where it is bound to.
std::int32_t own_node(const base::Config& config, const base::Topology& topology,
                      const collectives::LocalGroup& group) {
    if (config.topology.empty()) {
        return topology.own_node.value_or(kNoNode);
    }
    if (topology.numa_nodes.empty()) {
        return kNoNode;
    }
    const std::size_t place = static_cast<std::size_t>(group.local_rank) * topology.numa_nodes.size() /
                              static_cast<std::size_t>(group.local_size);
    return topology.numa_nodes[place];
}

collectives::Bytes encoded(const NodeFacts& facts, const std::string& topology) {
    collectives::Bytes bytes(sizeof(facts) + topology.size());
    std::memcpy(bytes.data(), &facts, sizeof(facts));
    std::memcpy(bytes.data() + sizeof(facts), topology.data(), topology.size());
    return bytes;
}

Result<std::vector<RankFacts>> facts_of_all(collectives::ControlPlane& control_plane, const collectives::Bytes& mine) {
    Result<std::vector<collectives::Bytes>> all = control_plane.allgather(mine);
    RUEDA_RETURN_IF_FAILED(all.status());
    std::vector<RankFacts> facts(all.value().size());
    for (std::size_t rank = 0; rank < facts.size(); ++rank) {
        const collectives::Bytes& bytes = all.value()[rank];
        if (bytes.size() < sizeof(NodeFacts)) {
            return failure(ErrorCode::internal, "rank {} announced its NUMA node with {} bytes; expected at least {}",
                           rank, bytes.size(), sizeof(NodeFacts));
        }
        std::memcpy(&facts[rank].facts, bytes.data(), sizeof(NodeFacts));
        facts[rank].topology.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(NodeFacts),
                                    bytes.size() - sizeof(NodeFacts));
    }
    return facts;
}

/// Otherwise sums would be combined in another order here than there, and no two ranks would have the same result. That
/// all go by nodes or none does was seen before (share_settings()).
Status check_same_topology(const std::vector<RankFacts>& all) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank].topology != all[0].topology) {
            return failure(ErrorCode::invalid_argument,
                           "RUEDA_TOPOLOGY is {} on rank {} and {} on rank 0; expected the same on all ranks, as with "
                           "RUEDA_NUMA_FIRST it decides the order of sums",
                           base::quote(all[rank].topology), rank, base::quote(all[0].topology));
        }
    }
    return {};
}

}  // namespace

Result<HostNodes> nodes_of_host(const base::Config& config, const base::Topology& topology,
                                collectives::ControlPlane& control_plane, const collectives::LocalGroup& group) {
    const NodeFacts mine{own_node(config, topology, group)};
    Result<std::vector<RankFacts>> all = facts_of_all(control_plane, encoded(mine, config.topology));
    RUEDA_RETURN_IF_FAILED(all.status());
    if (!config.numa_first) {
        return HostNodes{};
    }
    RUEDA_RETURN_IF_FAILED(check_same_topology(all.value()));
    std::vector<std::int32_t> nodes;
    std::vector<std::int32_t> without;
    for (const int rank : group.members) {
        nodes.push_back(all.value()[static_cast<std::size_t>(rank)].facts.node);
        if (nodes.back() < 0) {
            without.push_back(rank);
        }
    }
    if (!without.empty()) {
        return HostNodes{{},
                         fmt::format("RUEDA_NUMA_FIRST has no effect: {} bound to the cores of no single NUMA node; "
                                     "bind ranks to cores or nodes, e.g. with mpirun --bind-to numa",
                                     base::format_ranks(without) + (without.size() == 1 ? " is" : " are"))};
    }
    return HostNodes{collectives::NumaNodes(nodes), {}};
}

}  // namespace rueda::core
