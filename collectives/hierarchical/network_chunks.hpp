// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/host/segment_map.hpp"

namespace rueda::collectives {

/// How a tensor crosses between hosts, which its own size and the settings choose. What is compressed goes in the order
/// of the hosts, whatever its size: the other ways round partials more often than once.
enum class NetworkWay : std::uint8_t { doubling, host_order, ring };
inline constexpr std::size_t kNetworkWays = 3;

/// A batch, cut into what crosses between hosts at one time. Tensors of one way lie one after the other in one virtual
/// range, of the bytes that cross; a chunk is a part of one of them, and every lane has its share of it. Pure
/// arithmetic on what all ranks know, so every rank of every host computes the same.
class NetworkChunks {
public:
    struct Chunk {
        NetworkWay way = NetworkWay::doubling;
        Range range;
        std::uint32_t lanes = 1;  ///< how many of them have a share
    };

    NetworkChunks(std::uint32_t hosts, std::uint32_t lanes, const HierarchicalOptions& options);

    void clear();
    /// `bytes`: as they cross.
    void add(std::uint32_t segment, std::uint64_t bytes, bool is_compressed);

    [[nodiscard]] std::uint64_t count() const;
    [[nodiscard]] Chunk chunk(std::uint64_t index) const;
    [[nodiscard]] const SegmentMap& map_of(const Chunk& chunk) const {
        return maps_[static_cast<std::size_t>(chunk.way)];
    }
    [[nodiscard]] static Range share(const Chunk& chunk, std::uint32_t lane);
    /// Of all lanes.
    [[nodiscard]] static std::uint64_t longest_share(const Chunk& chunk);

    /// Memory for one lane's part of a chunk and what is received for it.
    [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }
    [[nodiscard]] std::uint64_t largest_share() const { return large_share_; }
    /// Partials and rooms that doubling needs, each of a chunk's size.
    [[nodiscard]] static std::uint32_t doubling_rooms(std::uint32_t hosts);

private:
    /// Of every lane.
    [[nodiscard]] std::uint64_t chunk_bytes(NetworkWay way) const {
        return (way == NetworkWay::doubling ? small_share_ : large_share_) * lanes_;
    }
    [[nodiscard]] std::uint64_t chunks_of(NetworkWay way) const;

    std::uint32_t lanes_;
    std::uint64_t small_bytes_;
    NetworkWay large_way_;
    std::uint64_t small_share_ = 0;  // bytes of one lane at one time
    std::uint64_t large_share_ = 0;
    std::uint64_t memory_bytes_ = 0;
    std::uint64_t least_of_lane_ = 0;
    std::array<SegmentMap, kNetworkWays> maps_;  // by NetworkWay
};

}  // namespace rueda::collectives
