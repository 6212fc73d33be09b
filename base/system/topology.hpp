// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::base {

/// What Rueda asks of a machine's caches and memory. Threads: a value.
struct Topology {
    /// Of the first core's second-level cache; 1 MiB where there is no word of one, as in many virtual machines.
    std::size_t l2_bytes = std::size_t{1024} * 1024;
    /// Numbers of the NUMA nodes that have cores, ascending; none where there is no word of any. Memory without cores
    /// of its own is no node here.
    std::vector<int> numa_nodes;
    /// The node with all the cores that the threads of this process are bound to. None if there is no single one, and
    /// in a described machine, where nothing runs.
    std::optional<int> own_node;
};

/// Asks hwloc, which takes milliseconds. `described` empty: this machine; a machine that does not tell is no error.
/// Otherwise hwloc's synthetic description ("numa:2 l2:2 core:1 pu:1"), or the path (from "/") of an XML file that
/// lstopo wrote; InvalidArgument where it is neither.
[[nodiscard]] Result<Topology> read_topology(const std::string& described);

}  // namespace rueda::base
