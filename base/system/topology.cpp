// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/text.hpp"

namespace rueda::base {

namespace {

struct DestroyTopology {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyPointer = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
    void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using BitmapPointer = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Status not_a_topology(const std::string& described, const std::string& reason) {
    return failure(ErrorCode::invalid_argument,
                   "RUEDA_TOPOLOGY is {}{}; expected hwloc's synthetic description, e.g. 'numa:2 l2:2 core:1 pu:1', or "
                   "the /path of a file that 'lstopo --of xml' wrote",
                   quote(described), reason);
}

/// Null if there is no memory. Uses hwloc's usual filters, which leave out devices. The objects to which NUMA nodes are
/// attached must not be filtered, or a node would get the cores of a larger object.
TopologyPointer new_topology() {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) {
        return nullptr;
    }
    return TopologyPointer(topology);
}

bool has_cores(hwloc_obj_t node) { return node->cpuset != nullptr && hwloc_bitmap_iszero(node->cpuset) == 0; }

/// Some memory says nothing about where a core lies: memory that also belongs to the cores of other nodes (of an
/// expander), and a second memory with the same cores (a processor's fast memory).
bool is_of_other_nodes(hwloc_topology_t topology, hwloc_obj_t node) {
    for (hwloc_obj_t other = nullptr;
         (other = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, other)) != nullptr;) {
        if (other == node || !has_cores(other)) {
            continue;
        }
        const bool same = hwloc_bitmap_isequal(other->cpuset, node->cpuset) != 0;
        const bool within = hwloc_bitmap_isincluded(other->cpuset, node->cpuset) != 0;
        if (same ? other->logical_index < node->logical_index : within) {
            return true;
        }
    }
    return false;
}

std::vector<hwloc_obj_t> nodes_with_cores(hwloc_topology_t topology) {
    std::vector<hwloc_obj_t> nodes;
    for (hwloc_obj_t node = nullptr;
         (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
        if (has_cores(node) && !is_of_other_nodes(topology, node)) {
            nodes.push_back(node);
        }
    }
    return nodes;
}

std::optional<int> own_node(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& nodes) {
    const BitmapPointer binding(hwloc_bitmap_alloc());
    if (binding == nullptr || hwloc_topology_is_thissystem(topology) == 0 ||
        hwloc_get_cpubind(topology, binding.get(), HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_bitmap_iszero(binding.get()) != 0) {
        return std::nullopt;
    }
    for (const hwloc_obj_t node : nodes) {
        if (hwloc_bitmap_isincluded(binding.get(), node->cpuset) != 0) {
            return static_cast<int>(node->os_index);
        }
    }
    return std::nullopt;
}

Topology facts_of(hwloc_topology_t topology) {
    Topology facts;
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L2CACHE, 0);
    if (cache != nullptr && cache->attr->cache.size > 0) {
        facts.l2_bytes = static_cast<std::size_t>(cache->attr->cache.size);
    }
    const std::vector<hwloc_obj_t> nodes = nodes_with_cores(topology);
    for (const hwloc_obj_t node : nodes) {
        facts.numa_nodes.push_back(static_cast<int>(node->os_index));
    }
    std::sort(facts.numa_nodes.begin(), facts.numa_nodes.end());
    facts.own_node = own_node(topology, nodes);
    return facts;
}

}  // namespace

Result<Topology> read_topology(const std::string& described) {
    const TopologyPointer topology = new_topology();
    if (described.empty()) {
        return topology != nullptr && hwloc_topology_load(topology.get()) == 0 ? facts_of(topology.get()) : Topology{};
    }
    if (topology == nullptr) {
        return failure(ErrorCode::resource_exhausted, "there is no memory to read RUEDA_TOPOLOGY");
    }
    const bool is_path = described.front() == '/';
    errno = 0;
    const int set = is_path ? hwloc_topology_set_xml(topology.get(), described.c_str())
                            : hwloc_topology_set_synthetic(topology.get(), described.c_str());
    if (set != 0 || hwloc_topology_load(topology.get()) != 0) {
        // If the file is not XML, hwloc returns EINVAL, which is less helpful than this message.
        const bool unreadable = is_path && errno != 0 && errno != EINVAL;
        return not_a_topology(
            described, unreadable ? fmt::format(" ({})", std::generic_category().message(errno)) : std::string());
    }
    return facts_of(topology.get());
}

}  // namespace rueda::base
