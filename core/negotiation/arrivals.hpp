// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/layout.hpp"

namespace rueda::core {

enum class Arrival {
    counted,  ///< other members have not announced yet
    last,     ///< all members have announced the same metadata: the caller appends the call to the log
    /// All members have announced, some with new metadata. The caller must ask the registrar to compare the metadata.
    last_changed,
    /// The announcement was not counted, because the slot no longer belongs to the tensor's name. The caller must
    /// announce the tensor by its name.
    retired,
};

/// Tells the stall monitor that `rank` is announcing in `slot`. This record is valid until end_arrival(). The monitor
/// sees it even if the process is stopped before it calls end_arrival(). Call this function before `rank` publishes or
/// counts the announcement.
template <class Atomics>
void begin_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint32_t slot) {
    set_step(memory, rank, slot + 1);
    // `direct` holds the slot of the rank's last direct announcement, which the slot's counter does not include. If the
    // rank announces in the same slot again, the operation of that direct announcement has ended. So the rank clears
    // `direct`. The release store pairs with the stall monitor's acquire load.
    if (auto& direct = memory.cursor(rank).direct; direct.load(std::memory_order_relaxed) == slot + 1) {
        direct.store(0, std::memory_order_release);
    }
}
/// Removes the record of begin_arrival(): the rank is no longer announcing in the slot. The member that announces last
/// must append the call, or post its request to the registrar, before it calls this function.
template <class Atomics>
void end_arrival(const NegotiationMemory<Atomics>& memory, std::uint32_t rank) {
    set_step(memory, rank, ProtocolStep::kNone);
}

/// Counts the calling rank's announcement in `slot`. The rank must already have written the data of the announcement
/// into its place in the arena. `counted` is the number of uses of the slot (generations) that were counted, including
/// this use; it is at least 1. The add to the slot's counter is seq_cst for two reasons. First, the add comes after the
/// earlier adds of other members, so the member that announces last sees the data of all members. Second, the add comes
/// before this rank reads which members have joined. So either this rank sees that a member joined, or that member sees
/// this announcement.
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
