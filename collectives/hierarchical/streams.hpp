// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"

namespace rueda::collectives {

/// The bytes of one rank that all ranks need.
///
/// On every host one rank *owns* a stream: its source, and elsewhere the rank with the source's place on its host (in
/// turn, where a host has fewer). The owner has it from another host, hands it on to others, and gives it to the ranks
/// of its host.
struct Stream {
    std::uint64_t bytes = 0;
    std::uint64_t output_offset = 0;
    std::uint32_t source = 0;             ///< rank
    std::uint32_t owner = 0;              ///< local rank on my host
    const std::byte* resident = nullptr;  ///< all of it, where the source is on my host and it lies in the arena

    // Where I own it:
    std::uint32_t from = 0;         ///< rank; the source has it from itself
    std::vector<std::uint32_t> to;  ///< ranks, in this order
};

/// Those of a batch, without empty ones: the same on all ranks, but for what is said of my host. Of an allgather the
/// source sends to the owners on all hosts. Of a broadcast the owners are a tree, which the tensor's size chooses: a
/// binomial one, where the time of a message counts, or a chain of the hosts, whose links are all busy.
[[nodiscard]] std::vector<Stream> streams_of(const Batch& batch, const HierarchicalSet& set, std::uint64_t chunk_bytes);

}  // namespace rueda::collectives
