// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

namespace rueda::core {

enum class Arrival {
    counted,       ///< some members have not arrived yet
    last,          ///< all members have arrived with the same metadata: append the call
    last_changed,  ///< all members have arrived, and some have changed their metadata: post a resolve
    retired,       ///< not counted, because the slot no longer belongs to the name: announce in full
};

/// Call this before `rank` publishes a place of `slot` that it is going to count, and before it counts what it
/// announced directly. Until end_arrival(), the stall monitor knows that the rank is in this step, even if the rank is
/// stopped.
template <class Atomics>
void begin_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint32_t slot) {
    set_step(memory, rank, slot + 1);
    // Records that the rank's last direct announcement in this slot is over: either it was an earlier one, or it is now
    // counted. Pairs with the stall monitor.
    if (auto& direct = memory.cursor(rank).direct; direct.load(std::memory_order_relaxed) == slot + 1) {
        direct.store(0, std::memory_order_release);
    }
}
/// Call this after the arrival. The last arriver first appends the call or posts the resolve, and then calls this.
template <class Atomics>
void end_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    set_step(memory, rank, ProtocolStep::kNone);
}

/// Counts the calling rank's announcement in `slot`. The announcement's place must already be written. `counted` (≥ 1)
/// is the number of the slot's generations that are counted, including this one. The last arriver sees the places of
/// all members: pairs with the other members' arrivals. seq_cst, because the rank afterwards reads which members have
/// joined: pairs with a member that joins and then reads the arrivals.
template <class Atomics>
[[nodiscard]] Arrival arrive(const NegotiationMemory<Atomics>& memory, std::uint32_t slot, std::uint64_t counted,
                             bool changed) {
    const std::uint64_t one = ArrivalCount::kOne + (changed ? ArrivalCount::kChangedOne : 0);
    const std::uint64_t word = memory.arrivals(slot).count.fetch_add(one, std::memory_order_seq_cst) + one;
    if (ArrivalCount::is_retired(word)) {
        return Arrival::retired;
    }
    if (ArrivalCount::arrivals(word) != counted * memory.extent().members) {
        return Arrival::counted;
    }
    return ArrivalCount::any_changed(word) ? Arrival::last_changed : Arrival::last;
}

}  // namespace rueda::core
