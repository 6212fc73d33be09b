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

/// Exchanges bytes with some ranks of other hosts, in both directions at the same time. The data lies in the caller's
/// memory. Each rank knows how many bytes it sends and receives. The bytes are split into messages of equal size, and
/// several messages of each direction are in flight at a time. A message waits only for earlier messages of its own
/// direction, so no circular wait can arise.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class PeerExchange {
public:
    explicit PeerExchange(HierarchicalSet& set);

    /// Begins the next exchange. The previous one must have ended.
    void begin() { peers_.clear(); }
    /// Both ranges of memory must come from Messages::allocate(). The caller must not touch them until is_done()
    /// returns true.
    void add(std::uint32_t rank, std::span<const std::byte> out, std::span<std::byte> in);
    /// Starts all messages that can be started. Returns false if none could be started.
    bool act();
    /// Whether everything was received and sent.
    [[nodiscard]] bool is_done();

private:
    /// The number of messages in flight for each peer and direction. Over TCP, this many messages keep a link busy
    /// while the other rank prepares its next message.
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
