// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The state of a direct announcement (docs/design/0001-negotiation.md, "Direct announcements").
enum class DirectState {
    waiting,    ///< some members have not announced this generation yet
    complete,   ///< all members have announced it directly; their places hold all that is needed
    withdrawn,  ///< some member counted its announcement, or will never make it: all members use the log instead
};

/// The value of `last_position` if no entry of the log keeps a member from announcing.
inline constexpr std::uint64_t kNoLastPosition = ~std::uint64_t{0};

/// Looks at what the other members announced in `generation` of `slot`, which `rank` has announced directly.
/// `last_position` is the log position of a retirement of the slot or of a *closing*. A member that has read such an
/// entry announces nothing more in the slot.
///
/// All members come to the same result, because it depends only on what does not change any more: a place stays as it
/// was announced until its rank has completed the generation, and a member that has read such an entry does not
/// announce.
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
        // seq_cst: partner of the announcement; the announcing member then looks whether this rank sleeps.
        const auto has_announced = [&] { return place.stamp.load(std::memory_order_seq_cst) == generation + 1; };
        if (!has_announced()) {
            // seq_cst: partner of the member's cursor; the member then looks whether this rank sleeps.
            const bool has_read_on = last_position != kNoLastPosition &&
                                     memory.cursor(member).position.load(std::memory_order_seq_cst) > last_position;
            if (has_read_on && !has_announced()) {  // it may have announced before it read the entry
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
