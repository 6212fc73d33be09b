// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The state of a direct announcement (docs/design/0001-negotiation.md, "Direct announcements").
enum class DirectState {
    waiting,   ///< some members have not announced this generation yet
    complete,  ///< all members have announced it directly; their places hold all data of the operation
    /// a member counted its announcement, or will never announce this generation: all members use the log instead
    withdrawn,
};

/// There is no entry of the log after which members announce no more.
inline constexpr std::uint64_t kNoLastPosition = ~std::uint64_t{0};

/// Reads what the other members announced in `generation` of `slot`, which `rank` has announced directly.
/// `last_position` is the log position of an entry that retires the slot, or of a *closing*. A member that has read
/// such an entry announces nothing more in the slot.
///
/// All members get the same result, because it depends only on facts that no longer change: a place keeps its content
/// until its rank has completed the generation, and a member that has read such an entry does not announce.
///
/// Threads: the thread that drives progress.
template <class Atomics>
[[nodiscard]] DirectState look_at_direct(const NegotiationMemory<Atomics>& memory, std::uint32_t slot,
                                         std::uint32_t rank, std::uint64_t generation,
                                         std::uint64_t last_position = kNoLastPosition) {
    DirectState found = DirectState::complete;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        if (member == rank) {
            continue;
        }
        const Place<Atomics>& place = memory.place(slot, member, generation);
        // seq_cst: pairs with the announcement. After it, the announcing member checks whether this rank sleeps.
        const auto has_announced = [&] { return place.stamp.load(std::memory_order_seq_cst) == generation + 1; };
        if (!has_announced()) {
            // seq_cst: pairs with the store to the member's cursor. After it, the member checks whether this rank
            // sleeps.
            const bool has_read_on = last_position != kNoLastPosition &&
                                     memory.cursor(member).position.load(std::memory_order_seq_cst) > last_position;
            if (has_read_on && !has_announced()) {  // the member may have announced before it read the entry
                return DirectState::withdrawn;
            }
            found = DirectState::waiting;
        } else if ((copy_once(place.flags) & Place<Atomics>::kDirect) == 0) {
            return DirectState::withdrawn;
        }
    }
    return found;
}

}  // namespace rueda::core
