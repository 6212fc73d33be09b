// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/host/arena/segment_map.hpp"

namespace rueda::collectives {

/// The algorithms that reduce a tensor between hosts. The tensor's size and the settings decide which one is used.
/// Compressed tensors always use reduce-scatter + allgather, because recursive doubling rounds intermediate results
/// more than once.
enum class NetworkWay : std::uint8_t { doubling, reduce_scatter };
inline constexpr std::size_t kNetworkWays = 2;

/// Cuts a batch into chunks, the units that cross between hosts at one time. All tensors with the same NetworkWay lie
/// one after the other in one virtual range, which counts bytes that cross between hosts. A chunk is a part of this
/// range, and every lane (a rank that sends for its host) has a share of the chunk. The chunks depend only on values
/// that all ranks know, so all ranks compute the same chunks.
class NetworkChunks {
public:
    struct Chunk {
        NetworkWay way = NetworkWay::doubling;
        Range range;
        std::uint32_t lanes = 1;  ///< how many ranks of each host ("lanes") have a share of the chunk
    };

    NetworkChunks(std::uint32_t hosts, std::uint32_t lanes, const HierarchicalOptions& options);

    void clear();
    /// `bytes` counts the bytes that cross between hosts.
    void add(std::uint32_t segment, std::uint64_t bytes, bool is_compressed);

    [[nodiscard]] std::uint64_t count() const;
    [[nodiscard]] Chunk chunk(std::uint64_t index) const;
    [[nodiscard]] const SegmentMap& map_of(const Chunk& chunk) const {
        return maps_[static_cast<std::size_t>(chunk.way)];
    }
    [[nodiscard]] static Range share(const Chunk& chunk, std::uint32_t lane);
    /// Returns the length in bytes of the longest share of the chunk. One rank sends and receives a share.
    [[nodiscard]] static std::uint64_t longest_share(const Chunk& chunk);

    /// The memory in bytes for one rank's share of a chunk, including the data that it receives for this chunk.
    [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }
    [[nodiscard]] std::uint64_t largest_share() const { return large_share_; }
    /// How many buffers of a chunk's size recursive doubling needs, including the buffer for the partials.
    [[nodiscard]] static std::uint32_t doubling_rooms(std::uint32_t hosts);

private:
    /// The length of a chunk in bytes, with the shares of all ranks of a host.
    [[nodiscard]] std::uint64_t chunk_bytes(NetworkWay way) const {
        return (way == NetworkWay::doubling ? small_share_ : large_share_) * lanes_;
    }
    [[nodiscard]] std::uint64_t chunks_of(NetworkWay way) const;

    std::uint32_t lanes_;
    std::uint64_t small_bytes_;
    std::uint64_t small_share_ = 0;  // bytes that one rank sends over the network at a time
    std::uint64_t large_share_ = 0;
    std::uint64_t memory_bytes_ = 0;
    std::uint64_t least_of_lane_ = 0;
    std::array<SegmentMap, kNetworkWays> maps_;  // indexed by NetworkWay
};

}  // namespace rueda::collectives
