// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/network_chunks.hpp"

#include <algorithm>
#include <bit>

#include "collectives/transport.hpp"

namespace rueda::collectives {
namespace {

/// By default, one rank's share of a chunk has 32 KiB for each host (kOfEachHost), but not less than kSmallestChosen
/// and not more than kLargestChosen. kLargestChosen limits the memory: for each chunk in progress, a lane needs memory
/// for three shares of a chunk.
///
/// The 32 KiB for a host are one message. MPI sends a message of this size without asking the receiver. Over TCP, Open
/// MPI asks the receiver before it sends more than 64 KiB, and the receiver answers only when it next calls MPI.
///
/// With two hosts, the default is 64 KiB. Shares of 128 KiB and of 512 KiB were compared with this default (2026-11-22,
/// 16 MiB, test hosts). On a link of 40 Gbit/s, the allreduce took 2.2 times as long with 128 KiB, and 1.6 times as
/// long with 512 KiB. On a link of 1 Gbit/s, it took 7 % longer with either size, because of the first and the last
/// chunk.
constexpr std::uint64_t kSmallestChosen = 64 * 1024;
constexpr std::uint64_t kLargestChosen = 512 * 1024;
constexpr std::uint64_t kOfEachHost = 32 * 1024;

/// The smallest useful share of a chunk for one rank, in bytes. A chunk of B bytes is therefore divided between at most
/// ⌈B / kLeastOfLane⌉ ranks of a host. With smaller shares, the time for an additional message would be longer than the
/// time for its bytes in an existing message.
constexpr std::uint64_t kLeastOfLane = 4 * 1024;

constexpr std::uint64_t down_to_lines(std::uint64_t bytes) {
    return std::max(bytes / base::kCacheLine, std::uint64_t{1}) * base::kCacheLine;
}

}  // namespace

std::uint32_t NetworkChunks::doubling_rooms(std::uint32_t hosts) {
    const auto steps = static_cast<std::uint32_t>(std::bit_width(hosts) - 1);
    const std::uint32_t fold = std::has_single_bit(hosts) ? 0 : 1;
    return 1 + 2 * (steps + fold);
}

NetworkChunks::NetworkChunks(std::uint32_t hosts, std::uint32_t lanes, const HierarchicalOptions& options)
    : lanes_(lanes),
      // With one host, recursive doubling has no partner, so no tensor counts as small.
      small_bytes_(hosts > 1 ? options.small_bytes : 0) {
    const std::uint64_t chosen = std::clamp(hosts * kOfEachHost, kSmallestChosen, kLargestChosen);
    const std::uint64_t wanted = options.network_chunk_bytes != 0 ? options.network_chunk_bytes : chosen;
    large_share_ = down_to_lines(std::min<std::uint64_t>(wanted, Transport::kMostBytes / 4));
    const std::uint32_t rooms = doubling_rooms(hosts);
    // `large` is the memory for the partial results, for the data that the other hosts send for one part, and for the
    // results. Each part is rounded up to a cache line.
    const std::uint64_t large = 3 * large_share_ + hosts * base::kCacheLine;
    // In recursive doubling, a host sends whole chunks, not parts of a chunk.
    small_share_ = std::min({large_share_, down_to_lines(large / rooms), kOfEachHost});
    memory_bytes_ = std::max(large, rooms * small_share_);
    least_of_lane_ = std::min(kLeastOfLane, small_share_);
}

void NetworkChunks::clear() {
    for (SegmentMap& map : maps_) {
        map.clear();
    }
}

void NetworkChunks::add(std::uint32_t segment, std::uint64_t bytes, bool is_compressed) {
    const NetworkWay way = is_compressed || bytes > small_bytes_ ? NetworkWay::reduce_scatter : NetworkWay::doubling;
    maps_[static_cast<std::size_t>(way)].add(segment, bytes);
}

std::uint64_t NetworkChunks::chunks_of(NetworkWay way) const {
    const std::uint64_t bytes = maps_[static_cast<std::size_t>(way)].bytes();
    return (bytes + chunk_bytes(way) - 1) / chunk_bytes(way);
}

std::uint64_t NetworkChunks::count() const {
    return chunks_of(NetworkWay::doubling) + chunks_of(NetworkWay::reduce_scatter);
}

NetworkChunks::Chunk NetworkChunks::chunk(std::uint64_t index) const {
    Chunk chunk;
    if (const std::uint64_t small = chunks_of(NetworkWay::doubling); index >= small) {
        chunk.way = NetworkWay::reduce_scatter;
        index -= small;
    }
    const std::uint64_t bytes = chunk_bytes(chunk.way);
    const std::uint64_t begin = index * bytes;
    chunk.range = {begin, std::min(begin + bytes, map_of(chunk).bytes())};
    const std::uint64_t worth = (chunk.range.bytes() + least_of_lane_ - 1) / least_of_lane_;
    chunk.lanes = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(worth, 1, lanes_));
    return chunk;
}

Range NetworkChunks::share(const Chunk& chunk, std::uint32_t lane) {
    return lane < chunk.lanes ? SegmentMap::share(chunk.range, lane, chunk.lanes)
                              : Range{chunk.range.end, chunk.range.end};
}

std::uint64_t NetworkChunks::longest_share(const Chunk& chunk) {
    const std::uint64_t lines = chunk.range.bytes() / base::kCacheLine;
    return (lines + chunk.lanes - 1) / chunk.lanes * base::kCacheLine;
}

}  // namespace rueda::collectives
