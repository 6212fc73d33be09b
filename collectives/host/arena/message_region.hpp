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

/// What the other ranks of the host need to know about a rank in order to exchange messages with it. Fresh memory is
/// zero, which means that no rank has called knock() and this rank has not left.
struct alignas(base::kCacheLine) MessageDoor {
    Doorstep<base::StdAtomics> step;
    /// 1 if the rank has shut down; its last frames to other ranks are then in their rings. Written once.
    alignas(base::kCacheLine) std::atomic<std::uint32_t> gone;
};

/// The part of an arena for messages between two ranks: one cache line about all ranks, a MessageDoor for each rank,
/// and a ring for each pair of sender and receiver. Parts to which no rank writes use no memory. Threads: this is a
/// view; its parts have their own rules.
class MessageRegion {
public:
    MessageRegion(std::byte* memory, std::uint32_t members, std::uint64_t ring_bytes)
        : memory_(memory), members_(members), ring_bytes_(ring_bytes) {}

    /// How many ranks have set `gone`.
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
    /// The memory of a ring that is in use.
    [[nodiscard]] std::uint64_t footprint() const { return kPage + ring_bytes_; }

    [[nodiscard]] static constexpr std::uint64_t bytes_for(std::uint32_t members, std::uint64_t ring_bytes) {
        return ring_bytes == 0 ? 0 : doors_bytes(members) + std::uint64_t{members} * members * (kPage + ring_bytes);
    }

private:
    static constexpr std::uint64_t kPage = 4096;  // whole pages, so that no two rings share a page

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
