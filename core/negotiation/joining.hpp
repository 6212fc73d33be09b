// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

/// What members that have joined see of the other members, and the other way round (docs/design/0005-join.md). Threads:
/// any thread of a rank, under its enqueue lock.
namespace rueda::core {

/// Records that `rank` has joined, and returns all members that have joined so far. seq_cst: pairs with
/// joined_to_tell(). Afterwards the member looks for announcements.
template <class Atomics>
std::uint64_t set_joined(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    SetHeader<Atomics>& header = memory.header();
    const std::uint64_t bit = std::uint64_t{1} << rank;
    const std::uint64_t joined = header.joined.fetch_or(bit, std::memory_order_seq_cst) | bit;
    if (joined == all_members(memory.extent().members)) {
        // The registrar reads last_joined; this rank's *settle* request publishes it. Pairs with the check of a leader
        // that is about to sleep; the caller wakes the leader.
        header.last_joined.store(rank + 1, std::memory_order_seq_cst);
    }
    return joined;
}

/// Returns the joined members that must be told of an announcement that arrive() or a stamp has just made. seq_cst,
/// like the announcement: pairs with set_joined(). A member that joins too late to be seen here sees the announcement
/// itself.
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.load(std::memory_order_seq_cst);
}

/// Like joined_to_tell(), but for use after the registrar's writes, which are only release. This function uses a
/// read-modify-write. So if set_joined() comes later, its member sees what the registrar wrote; if it comes earlier,
/// this function returns the member.
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell_of_posts(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.fetch_or(0, std::memory_order_seq_cst);
}

/// Whether `rank` is still joined. Call this after an announcement was found. The bit is cleared before any member can
/// announce a new operation of its own. So if the bit is cleared, this rank must not stand in for the announcement.
template <class Atomics>
[[nodiscard]] bool is_away(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    return (memory.header().joined.load(std::memory_order_seq_cst) >> rank & 1) != 0;
}

/// Whether any member has counted an announcement in `slot` beyond the first `counted` generations. seq_cst: pairs with
/// arrive().
template <class Atomics>
[[nodiscard]] bool has_new_arrivals(const NegotiationMemory<Atomics>& memory, std::uint32_t slot,
                                    std::uint64_t counted) {
    const std::uint64_t word = memory.arrivals(slot).count.load(std::memory_order_seq_cst);
    // If the slot is retired, there are unread log entries about it. They must be handled first.
    return !ArrivalCount::is_retired(word) && ArrivalCount::arrivals(word) > counted * memory.extent().members;
}

/// Whether `member` has announced `generation` of `slot` directly. seq_cst: pairs with the store of a direct
/// announcement's stamp.
template <class Atomics>
[[nodiscard]] bool has_stamped(const NegotiationMemory<Atomics>& memory, std::uint32_t slot, std::uint32_t member,
                               std::uint64_t generation) {
    return memory.place(slot, member, generation).stamp.load(std::memory_order_seq_cst) == generation + 1;
}

}  // namespace rueda::core
