// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// What has become of a direct announcement (docs/design/0001-negotiation.md, "Direct announcements").
enum class DirectState {
    waiting,    ///< for members that have not announced this generation yet
    complete,   ///< all have announced it directly: their places hold all that is needed
    withdrawn,  ///< somebody counts his announcement, or will never make it: everybody goes the way of the log
};

/// Nothing in the log keeps anybody from announcing.
inline constexpr std::uint64_t kNoLastPosition = ~std::uint64_t{0};

/// Looks at what the other members announced in `generation` of `slot`, which `rank` has announced directly.
/// `last_position`: of the entry, a retirement of the slot or a *closing*, after which a member that has read it
/// announces nothing in the slot any more.
///
/// All members come to the same end, since it depends on what does not change any more: a place stays as it was
/// announced until its rank has completed the generation, and who has read such an entry does not announce.
///
/// Threads: whoever holds the rank's crank.
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
        // seq_cst: partner of the announcement, which is followed by a look at whether this rank sleeps.
        const auto has_announced = [&] { return place.stamp.load(std::memory_order_seq_cst) == generation + 1; };
        if (!has_announced()) {
            // seq_cst: partner of the member's cursor, which is followed by the same look.
            const bool has_read_on = last_position != kNoLastPosition &&
                                     memory.cursor(member).position.load(std::memory_order_seq_cst) > last_position;
            if (has_read_on && !has_announced()) {  // it may have announced before that
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
