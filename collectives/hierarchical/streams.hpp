// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"

namespace rueda::collectives {

/// The bytes that one rank, the source, sends to all ranks.
///
/// On every host, one rank *owns* the stream. The owner receives the stream from another host, sends it on to other
/// hosts, and passes it to the ranks of its own host. On the source's host, the source is the owner. On another host,
/// the owner has the same local rank as the source, modulo the number of ranks on that host.
struct Stream {
    std::uint64_t bytes = 0;
    std::uint64_t output_offset = 0;
    std::uint32_t source = 0;  ///< the rank that sends the stream
    std::uint32_t owner = 0;   ///< the local rank of the owner on this host
    /// The whole input, if the source is on this host and its tensor lies in the host's shared memory; otherwise null.
    const std::byte* resident = nullptr;

    // `from` and `to` have a meaning only if this rank owns the stream.
    std::uint32_t from = 0;         ///< the rank that sends the stream to this rank; on the source, the source itself
    std::vector<std::uint32_t> to;  ///< the ranks to which this rank sends the stream, in the order of sending
};

/// Returns the streams of a batch, except empty streams. All ranks get the same streams; only the fields about this
/// host and this rank differ. In an allgather the source sends to the owners on all hosts. In a broadcast the owners
/// form a tree, and the tensor's size determines its shape. For small tensors the tree is binomial, which needs the
/// fewest steps. For large tensors it is a chain of the hosts, which keeps all links busy.
[[nodiscard]] std::vector<Stream> streams_of(const Batch& batch, const HierarchicalSet& set, std::uint64_t chunk_bytes);

}  // namespace rueda::collectives
