// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

namespace rueda::core {

enum class Arrival {
    counted,       ///< other members have not announced yet
    last,          ///< all members have announced the same metadata: the caller appends the call to the log
    last_changed,  ///< all members have announced, some with new metadata: the caller asks the registrar to compare
    /// not counted, because the slot no longer belongs to the tensor's name: the caller announces with the name
    retired,
};

/// Records for the stall monitor that `rank` announces in `slot`, until end_arrival(). The monitor sees this even if
/// the process is stopped before it calls end_arrival(). Call this function before `rank` publishes or counts the
/// announcement.
template <class Atomics>
void begin_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint32_t slot) {
    set_step(memory, rank, slot + 1);
    // `direct` holds the slot of the rank's last direct announcement, which the slot's counter does not contain. If the
    // new announcement is in the same slot, the operation of that direct announcement has ended, so `direct` is
    // cleared. Release: pairs with the stall monitor's acquire load.
    if (auto& direct = memory.cursor(rank).direct; direct.load(std::memory_order_relaxed) == slot + 1) {
        direct.store(0, std::memory_order_release);
    }
}
/// Records that the rank no longer announces in the slot. This ends the record of begin_arrival(). The member that
/// announces last must first append the call, or post its request to the registrar.
template <class Atomics>
void end_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    set_step(memory, rank, ProtocolStep::kNone);
}

/// Counts the calling rank's announcement in `slot`. The rank must already have written the announcement's data into
/// its place in the arena. `counted` (≥ 1) is the number of the slot's counted generations (uses of the slot),
/// including this one. The add is seq_cst for two reasons. The add is ordered after the other members' adds, so the
/// last arriver sees all their data. The add is also ordered before this rank's later read of who has joined: either
/// this rank sees that a member joined, or that member sees this arrival.
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
