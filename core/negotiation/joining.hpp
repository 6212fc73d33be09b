// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

/// What members that have joined, and the others, see of each other (docs/design/0005-join.md).
/// Threads: any of a rank, under its enqueue lock.
namespace rueda::core {

/// `rank` has joined; returns who has by then.
/// seq_cst: partner of joined_to_tell(); after this the member looks at what is announced.
template <class Atomics>
std::uint64_t set_joined(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    SetHeader<Atomics>& header = memory.header();
    const std::uint64_t bit = std::uint64_t{1} << rank;
    const std::uint64_t joined = header.joined.fetch_or(bit, std::memory_order_seq_cst) | bit;
    if (joined == all_members(memory.extent().members)) {
        // For the registrar, published by this rank's *settle*. Partner: a leader about to sleep, whom the caller
        // wakes.
        header.last_joined.store(rank + 1, std::memory_order_seq_cst);
    }
    return joined;
}

/// The members that have to be told of an announcement that was just made, by arrive() or by a stamp.
/// seq_cst, as those: partner of set_joined(). Who is not seen here sees the announcement.
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.load(std::memory_order_seq_cst);
}

/// The same after what the registrar wrote for anybody, release only. A read-modify-write: either set_joined() comes
/// after this one, and what was written is seen there, or it is seen here.
template <class Atomics>
[[nodiscard]] std::uint64_t joined_to_tell_of_posts(const NegotiationMemory<Atomics>& memory) {
    return memory.header().joined.fetch_or(0, std::memory_order_seq_cst);
}

/// Has `rank` still joined? To be asked after an announcement was found: the bit is cleared before any member can
/// announce something of its own again, so what is found then is not to be stood in for.
template <class Atomics>
[[nodiscard]] bool is_away(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    return (memory.header().joined.load(std::memory_order_seq_cst) >> rank & 1) != 0;
}

/// Has anybody counted an announcement in `slot` beyond the generations that were, of which `counted` are counted?
/// seq_cst: partner of arrive().
template <class Atomics>
[[nodiscard]] bool has_new_arrivals(const NegotiationMemory<Atomics>& memory, std::uint32_t slot,
                                    std::uint64_t counted) {
    const std::uint64_t word = memory.arrivals(slot).count.load(std::memory_order_seq_cst);
    // Of a slot that is retired, the log has more to say first.
    return !ArrivalCount::is_retired(word) && ArrivalCount::arrivals(word) > counted * memory.extent().members;
}

/// Has `member` announced `generation` of `slot`? seq_cst: partner of a direct announcement's stamp.
template <class Atomics>
[[nodiscard]] bool has_stamped(const NegotiationMemory<Atomics>& memory, std::uint32_t slot, std::uint32_t member,
                               std::uint64_t generation) {
    return memory.place(slot, member, generation).stamp.load(std::memory_order_seq_cst) == generation + 1;
}

}  // namespace rueda::core
