// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/hierarchical/hierarchical_set.hpp"

namespace rueda::collectives {

/// Exchanges bytes with some ranks of other hosts, in both directions at the same time and in place. One rank sends
/// exactly as many bytes as the other receives. Everything is split into messages of equal size, and several messages
/// of each direction are under way at a time. A message waits only for earlier messages of its own direction, so no
/// circular wait can arise.
///
/// Threads: the thread that drives progress.
class PeerExchange {
public:
    explicit PeerExchange(HierarchicalSet& set);

    /// Begins the next exchange. The previous one must have ended.
    void begin() { peers_.clear(); }
    /// Both spans lie in memory from Messages::allocate(). The caller does not touch them until is_done().
    void add(std::uint32_t rank, std::span<const std::byte> out, std::span<std::byte> in);
    /// Starts what can be started; returns false if nothing could be started.
    bool act();
    /// Whether everything was received and sent.
    [[nodiscard]] bool is_done();

private:
    /// Messages under way for each peer and direction. Over TCP this many keep a link busy while the other side looks
    /// for the next one.
    static constexpr std::size_t kUnderWay = 8;
    using Window = std::array<Message, kUnderWay>;
    struct Peer {
        std::uint32_t rank = 0;
        std::span<const std::byte> out;
        std::span<std::byte> in;
        std::uint64_t sent = 0;      // messages whose send was started
        std::uint64_t received = 0;  // messages whose receive was started
        Window sends;
        Window receives;
    };
    [[nodiscard]] std::size_t messages_of(std::size_t bytes) const {
        return (bytes + message_bytes_ - 1) / message_bytes_;
    }

    HierarchicalSet& set_;
    std::size_t message_bytes_;
    std::vector<Peer> peers_;
};

}  // namespace rueda::collectives
