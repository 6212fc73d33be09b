// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/peer_exchange.hpp"

#include <algorithm>

namespace rueda::collectives {
namespace {

/// MPI sends messages of this size without asking the receiver first (see network_chunks.cpp).
constexpr std::uint64_t kChosenMessage = 32 * 1024;

template <class Byte>
std::span<Byte> part_of(std::span<Byte> all, std::uint64_t message, std::size_t bytes) {
    return all.subspan(message * bytes, std::min(bytes, all.size() - message * bytes));
}

}  // namespace

PeerExchange::PeerExchange(HierarchicalSet& set)
    : set_(set),
      message_bytes_(set.options.network_chunk_bytes != 0
                         ? std::clamp<std::uint64_t>(set.options.network_chunk_bytes, 1, Transport::kMostBytes)
                         : kChosenMessage) {}

void PeerExchange::add(std::uint32_t rank, std::span<const std::byte> out, std::span<std::byte> in) {
    Peer peer;
    peer.rank = rank;
    peer.out = out;
    peer.in = in;
    peers_.push_back(peer);
}

bool PeerExchange::act() {
    bool something = false;
    for (Peer& peer : peers_) {
        while (peer.received < messages_of(peer.in.size()) &&
               set_.messages.has_ended(peer.receives[peer.received % kUnderWay])) {
            peer.receives[peer.received % kUnderWay] =
                set_.messages.receive(peer.rank, part_of(peer.in, peer.received, message_bytes_));
            ++peer.received;
            something = true;
        }
        while (peer.sent < messages_of(peer.out.size()) && set_.messages.has_ended(peer.sends[peer.sent % kUnderWay])) {
            peer.sends[peer.sent % kUnderWay] =
                set_.messages.send(peer.rank, part_of(peer.out, peer.sent, message_bytes_));
            ++peer.sent;
            something = true;
        }
    }
    return something;
}

bool PeerExchange::is_done() {
    bool done = true;
    for (Peer& peer : peers_) {
        done = done && peer.received == messages_of(peer.in.size()) && peer.sent == messages_of(peer.out.size());
        for (std::size_t i = 0; i < kUnderWay; ++i) {
            done = set_.messages.has_ended(peer.receives[i]) && done;
            done = set_.messages.has_ended(peer.sends[i]) && done;
        }
    }
    return done;
}

}  // namespace rueda::collectives
