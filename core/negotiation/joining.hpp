// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

/// How members that have joined find announcements, and how announcing members find joined members
/// (docs/design/0005-join.md). A joined member has no further operations of its own. It announces the operations of the
/// other members too, so that these can be executed. Threads: any thread of a rank, under the rank's enqueue lock (the
/// mutex under which a rank announces).
namespace rueda::core {

/// Records that `rank` has joined, and returns a bit mask of all members that have joined so far. Afterwards the caller
/// looks for announcements of other members. The access is seq_cst, so either this member finds an announcement, or the
/// announcing member sees this bit in joined_to_tell().
template <class Atomics>
std::uint64_t set_joined(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    SetHeader<Atomics>& header = memory.header();
    const std::uint64_t bit = std::uint64_t{1} << rank;
    const std::uint64_t joined = header.joined.fetch_or(bit, std::memory_order_seq_cst) | bit;
    if (joined == all_members(memory.extent().members)) {
        // The store is seq_cst: a leader reads `last_joined` before it sleeps, and the caller of set_joined() wakes the
        // leader after this store. The registrar sees this store too, because it reads `last_joined` only after a later
        // request of this rank. In this request, of the kind *settle*, this rank reports that it has no pending
        // operation.
        header.last_joined.store(rank + 1, std::memory_order_seq_cst);
    }
    return joined;
}

/// Returns the joined members that must be notified of an announcement. Call this after arrive(), or after the store of
/// a stamp, which publishes a direct announcement; both are seq_cst. Because of this order, either this load sees a
/// member that joins, or the joining member itself sees the announcement (set_joined()).
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.load(std::memory_order_seq_cst);
}

/// Like joined_to_tell(), but for use after the registrar's writes, which have only release order. This function reads
/// `joined` by a read-modify-write, so there are only two cases. A member whose set_joined() comes later sees the
/// registrar's writes. A member whose set_joined() came earlier is in the returned mask.
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell_of_posts(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.fetch_or(0, std::memory_order_seq_cst);
}

/// Whether `rank` is still joined. Call this after an announcement was found. If the bit is cleared, the join has
/// ended, and the announcement that was found may belong to a new operation. In this case this rank must not announce
/// that operation on behalf of the join.
template <class Atomics>
[[nodiscard]] bool is_away(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    return (memory.header().joined.load(std::memory_order_seq_cst) >> rank & 1) != 0;
}

/// Whether any member has counted an announcement in `slot` beyond the first `counted` generations (uses of the slot).
/// This load is seq_cst, and pairs with the add in arrive(). Either this load sees the announcement, or the announcing
/// member sees that this rank has joined.
template <class Atomics>
[[nodiscard]] bool has_new_arrivals(const NegotiationMemory<Atomics>& memory, std::uint32_t slot,
                                    std::uint64_t counted) {
    const std::uint64_t word = memory.arrivals(slot).count.load(std::memory_order_seq_cst);
    // The slot was retired (it has lost its name), and this rank has not read the log entry about that. This rank must
    // handle that entry first.
    return !ArrivalCount::is_retired(word) && ArrivalCount::arrivals(word) > counted * memory.extent().members;
}

/// Whether `member` has announced `generation` (a use of `slot`) directly. This load is seq_cst, and pairs with the
/// store of the stamp. Either this load sees the stamp, or the announcing member sees that this rank has joined.
template <class Atomics>
[[nodiscard]] bool has_stamped(const NegotiationMemory<Atomics>& memory, std::uint32_t slot, std::uint32_t member,
                               std::uint64_t generation) {
    return memory.place(slot, member, generation).stamp.load(std::memory_order_seq_cst) == generation + 1;
}

}  // namespace rueda::core
