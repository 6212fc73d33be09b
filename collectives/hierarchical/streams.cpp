// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/streams.hpp"

#include <bit>

namespace rueda::collectives {
namespace {

std::uint32_t owner_on(const Hosts& hosts, std::uint32_t source, std::uint32_t host) {
    const auto ranks = hosts.ranks_of(host);
    return ranks[hosts.local_of(source) % ranks.size()];
}

Stream stream(const HierarchicalSet& set, std::uint32_t source, std::uint64_t bytes, std::uint64_t output_offset,
              const Batch& batch) {
    Stream stream;
    stream.bytes = bytes;
    stream.output_offset = output_offset;
    stream.source = stream.from = source;
    stream.owner = set.hosts.local_of(owner_on(set.hosts, source, set.hosts.my_host()));
    if (set.hosts.is_here(source)) {
        stream.resident = batch.locations[set.hosts.local_of(source)].input;
    }
    return stream;
}

/// Each source begins with a different host, so that not all sources send to the same host at once.
void send_to_all(Stream& stream, const Hosts& hosts) {
    if (stream.source != hosts.my_rank()) {
        return;
    }
    for (std::uint32_t step = 1; step < hosts.count(); ++step) {
        stream.to.push_back(owner_on(hosts, stream.source, (hosts.my_host() + step) % hosts.count()));
    }
}

/// Returns true if a chain of hosts is faster than a binomial tree. In a chain of h hosts, the last host finishes later
/// than the second host: the delay is the time for h − 2 chunks. In a binomial tree, the root's link carries the whole
/// tensor ⌈log₂ h⌉ times.
bool goes_in_a_chain(std::uint64_t bytes, std::uint32_t hosts, std::uint64_t chunk_bytes) {
    return hosts > 2 && (std::bit_width(hosts - 1) - 1) * bytes > (hosts - 2) * chunk_bytes;
}

void send_by_tree(Stream& stream, const Hosts& hosts, bool chain) {
    const std::uint32_t root = hosts.host_of(stream.source);
    const std::uint32_t place = (hosts.my_host() + hosts.count() - root) % hosts.count();  // 0 for the root's host
    const auto owner_at = [&](std::uint32_t p) { return owner_on(hosts, stream.source, (root + p) % hosts.count()); };
    if (chain) {
        stream.from = place == 0 ? stream.source : owner_at(place - 1);
        if (place + 1 < hosts.count()) {
            stream.to.push_back(owner_at(place + 1));
        }
        return;
    }
    // `place` is this host's number in the tree. The parent's number is `place` without its lowest set bit. The most
    // distant child has the largest subtree, so the host sends to this child first.
    stream.from = place == 0 ? stream.source : owner_at(place & (place - 1));
    const std::uint32_t end = place == 0 ? std::bit_ceil(hosts.count()) : place & (0 - place);
    for (std::uint32_t step = end / 2; step > 0; step /= 2) {
        if (place + step < hosts.count()) {
            stream.to.push_back(owner_at(place + step));
        }
    }
}

}  // namespace

std::vector<Stream> streams_of(const Batch& batch, const HierarchicalSet& set, std::uint64_t chunk_bytes) {
    std::vector<Stream> streams;
    const Segment& segment = batch.segments[0];
    if (batch.operation == Operation::broadcast) {
        if (segment.bytes() > 0) {
            streams.push_back(stream(set, segment.root, segment.bytes(), 0, batch));
            send_by_tree(streams.back(), set.hosts, goes_in_a_chain(segment.bytes(), set.hosts.count(), chunk_bytes));
        }
        return streams;
    }
    std::uint64_t offset = 0;
    for (std::uint32_t rank = 0; rank < set.hosts.size(); ++rank) {
        const std::uint64_t bytes = static_cast<std::uint64_t>(batch.rows[rank]) * segment.bytes();
        if (bytes > 0) {
            streams.push_back(stream(set, rank, bytes, offset, batch));
            send_to_all(streams.back(), set.hosts);
        }
        offset += bytes;
    }
    return streams;
}

}  // namespace rueda::collectives
