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

/// Bytes for some ranks of other hosts and bytes from them, at the same time, in place. What one sends is as long as
/// what the other receives. Everything goes in messages of equal size, some of each way under way at a time; nothing
/// waits for anything but its own way's messages before it, so there is no circle.
///
/// Threads: whoever drives the engine.
class PeerExchange {
public:
    explicit PeerExchange(HierarchicalSet& set);

    /// Begins the next exchange: the one before has ended.
    void begin() { peers_.clear(); }
    /// Both in allocated room (Messages), and left alone until is_done().
    void add(std::uint32_t rank, std::span<const std::byte> out, std::span<std::byte> in);
    /// Starts what can be started; false: nothing could.
    bool act();
    /// Everything has arrived and left.
    [[nodiscard]] bool is_done();

private:
    /// Of one peer and way: over TCP one keeps a link busy while the other side looks for the next.
    static constexpr std::size_t kUnderWay = 8;
    using Window = std::array<Message, kUnderWay>;
    struct Peer {
        std::uint32_t rank = 0;
        std::span<const std::byte> out;
        std::span<std::byte> in;
        std::uint64_t sent = 0;      // messages that were started
        std::uint64_t received = 0;  // likewise
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
