// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::base {

/// What Rueda needs to know about a machine's caches and memory. Threads: a value.
struct Topology {
    /// The size of the first core's second-level cache; 1 MiB if it is unknown, as in many virtual machines.
    std::size_t l2_bytes = std::size_t{1024} * 1024;
    /// The numbers of the NUMA nodes that have cores, ascending; empty if none is known. Memory without cores of its
    /// own is not a node here.
    std::vector<int> numa_nodes;
    /// The node that contains all cores to which the threads of this process are bound. Empty if there is no single
    /// such node, and for a described machine, on which nothing runs.
    std::optional<int> own_node;
};

/// Asks hwloc, which takes milliseconds. If `described` is empty, it asks about this machine; a machine that tells
/// nothing is not an error. Otherwise `described` is hwloc's synthetic description ("numa:2 l2:2 core:1 pu:1"), or the
/// path (beginning with "/") of an XML file that lstopo wrote. InvalidArgument if it is neither.
[[nodiscard]] Result<Topology> read_topology(const std::string& described);

}  // namespace rueda::base
