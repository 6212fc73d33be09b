// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

namespace rueda::core {

enum class Arrival {
    counted,       ///< some members have not arrived yet
    last,          ///< all have arrived and mean the same: append the call
    last_changed,  ///< all have arrived, and some have changed their metadata: post a resolve
    retired,       ///< not counted, because the slot was taken from its name: announce in full
};

/// Call it before `rank` publishes a place of `slot` that it is going to count, or counts what it announced directly.
/// Until end_arrival() the stall monitor knows that the rank is in this step, wherever it is stopped.
template <class Atomics>
void begin_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint32_t slot) {
    set_step(memory, rank, slot + 1);
    // Records that the rank's last direct announcement in this slot is over: it was an earlier one, or it is counted
    // after all. Partner: the stall monitor.
    if (auto& direct = memory.cursor(rank).direct; direct.load(std::memory_order_relaxed) == slot + 1) {
        direct.store(0, std::memory_order_release);
    }
}
/// Call it after the arrival; the last arriver calls it after what follows from the arrival.
template <class Atomics>
void end_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    set_step(memory, rank, ProtocolStep::kNone);
}

/// Counts the calling rank's announcement in `slot`; its place must be written. `counted` (≥ 1) is the number of the
/// slot's generations that are counted, including this one. The last arriver sees the places of all members; partners:
/// the other members' arrivals. seq_cst, because the rank looks afterwards at who has joined: partner of a member that
/// joins, and then looks at the arrivals.
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
