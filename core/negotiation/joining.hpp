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
/// looks for announcements of other members. The access is seq_cst. So either the caller finds an announcement, or the
/// announcing member sees this bit in joined_to_tell().
template <class Atomics>
std::uint64_t set_joined(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    SetHeader<Atomics>& header = memory.header();
    const std::uint64_t bit = std::uint64_t{1} << rank;
    const std::uint64_t joined = header.joined.fetch_or(bit, std::memory_order_seq_cst) | bit;
    if (joined == all_members(memory.extent().members)) {
        // The store is seq_cst: a leader reads `last_joined` before it sleeps, and the caller of set_joined() wakes the
        // leader after this store. The registrar sees this store too. It reads `last_joined` only when it handles a
        // later request of this rank, the *settle* request: it says that this rank has no pending operation.
        header.last_joined.store(rank + 1, std::memory_order_seq_cst);
    }
    return joined;
}

/// Returns the joined members that must be notified of an announcement. Call this after arrive(), or after the store of
/// the stamp that publishes a direct announcement. Both are seq_cst, and so is the load here. So if a member joins at
/// the same time, either this load sees it, or that member sees the announcement (set_joined()).
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.load(std::memory_order_seq_cst);
}

/// Like joined_to_tell(), but for use after the registrar's writes, which have only release order. This function reads
/// `joined` by a read-modify-write. So if a member calls set_joined() later, this member sees the registrar's writes.
/// If it called set_joined() earlier, it is in the returned mask.
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell_of_posts(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.fetch_or(0, std::memory_order_seq_cst);
}

/// Whether `rank` is still joined. Call this after an announcement was found. If the result is false, the join has
/// ended, and the announcement may belong to a new operation. Then this rank must not announce that operation on behalf
/// of the join.
template <class Atomics>
[[nodiscard]] bool is_away(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    return (memory.header().joined.load(std::memory_order_seq_cst) >> rank & 1) != 0;
}

/// Whether any member has counted an announcement for a new use of `slot`. Before that, `counted` uses of the slot
/// (generations) were counted. This load is seq_cst, and pairs with the add in arrive(). Either this load sees the
/// announcement, or the announcing member sees that this rank has joined.
template <class Atomics>
[[nodiscard]] bool has_new_arrivals(const NegotiationMemory<Atomics>& memory, std::uint32_t slot,
                                    std::uint64_t counted) {
    const std::uint64_t word = memory.arrivals(slot).count.load(std::memory_order_seq_cst);
    // If the slot was retired (it has lost its name), this rank has not read the log entry about that yet. It must
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
