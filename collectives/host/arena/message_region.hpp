// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "collectives/host/arena/message_ring.hpp"

namespace rueda::collectives {

using RingState = MessageRingState<base::StdAtomics>;

/// The state of one rank that the other ranks of the host need to exchange messages with it. In the initial state, all
/// bytes are 0: no rank has written a message, and this rank has not shut down.
struct alignas(base::kCacheLine) MessageDoor {
    Doorstep<base::StdAtomics> step;
    /// 1 if this rank has shut down. The rank writes this word once, after it has written its last data for other ranks
    /// to the rings.
    alignas(base::kCacheLine) std::atomic<std::uint32_t> gone;
};

/// The part of an arena (the shared memory of one host) for messages between two ranks. It has one cache line for all
/// ranks, a MessageDoor for each rank, and a ring for each pair of sender and receiver. Parts to which no rank has
/// written use no memory. Threads: this class only computes addresses; its parts have their own rules.
class MessageRegion {
public:
    MessageRegion(std::byte* memory, std::uint32_t members, std::uint64_t ring_bytes)
        : memory_(memory), members_(members), ring_bytes_(ring_bytes) {}

    /// The number of ranks that have shut down (whose `MessageDoor::gone` is 1).
    [[nodiscard]] std::atomic<std::uint32_t>& departures() const {
        return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory_);
    }
    [[nodiscard]] MessageDoor& door(std::uint32_t member) const {
        return reinterpret_cast<MessageDoor*>(memory_ + base::kCacheLine)[member];
    }
    [[nodiscard]] RingState& state(std::uint32_t from, std::uint32_t to) const {
        return *reinterpret_cast<RingState*>(memory_ + ring_offset(from, to));
    }
    [[nodiscard]] std::byte* bytes(std::uint32_t from, std::uint32_t to) const {
        return memory_ + ring_offset(from, to) + kPage;
    }
    [[nodiscard]] std::uint64_t ring_bytes() const { return ring_bytes_; }
    /// How many bytes of memory a ring takes when it is used.
    [[nodiscard]] std::uint64_t footprint() const { return kPage + ring_bytes_; }

    [[nodiscard]] static constexpr std::uint64_t bytes_for(std::uint32_t members, std::uint64_t ring_bytes) {
        return ring_bytes == 0 ? 0 : doors_bytes(members) + std::uint64_t{members} * members * (kPage + ring_bytes);
    }

private:
    static constexpr std::uint64_t kPage = 4096;  // whole pages, so that no two rings share a page
    static_assert(sizeof(RingState) <= kPage && sizeof(RingState) == 3 * base::kCacheLine);

    [[nodiscard]] static constexpr std::uint64_t doors_bytes(std::uint32_t members) {
        return (base::kCacheLine + members * sizeof(MessageDoor) + kPage - 1) / kPage * kPage;
    }
    [[nodiscard]] std::uint64_t ring_offset(std::uint32_t from, std::uint32_t to) const {
        return doors_bytes(members_) + (std::uint64_t{from} * members_ + to) * footprint();
    }

    std::byte* memory_;
    std::uint32_t members_;
    std::uint64_t ring_bytes_;
};

}  // namespace rueda::collectives
