// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// What has become of a direct announcement (docs/design/0001-negotiation.md, "Direct announcements").
enum class Direct {
    waiting,    ///< for members that have not announced this generation yet
    complete,   ///< all have announced it directly: their places hold all that is needed
    withdrawn,  ///< somebody counts his announcement, or will never make it: everybody goes the way of the log
};

/// Of a slot that this rank has not read a retirement of.
inline constexpr std::uint64_t kNotRetired = ~std::uint64_t{0};

/// Looks at what the other members announced in `generation` of `slot`, which `rank` has announced directly.
/// `retired_at`: the log position of the slot's retirement, if `rank` has come to it.
///
/// All members come to the same end, since it depends on what does not change any more: a place stays as it was
/// announced until its rank has completed the generation, and neither who has shut down nor who has read a retirement
/// announces anything in the slot afterwards.
///
/// Threads: whoever holds the rank's crank.
template <class Atomics>
[[nodiscard]] Direct look_at_direct(const NegotiationMemory<Atomics>& memory, std::uint32_t slot, std::uint32_t rank,
                                    std::uint64_t generation, std::uint64_t retired_at = kNotRetired) {
    Direct found = Direct::complete;
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        if (member == rank) {
            continue;
        }
        const Place<Atomics>& place = memory.place(slot, member, generation);
        // seq_cst: partner of the announcement, which is followed by a look at whether this rank sleeps.
        const auto has_announced = [&] { return place.stamp.load(std::memory_order_seq_cst) == generation + 1; };
        if (!has_announced()) {
            const bool has_shut_down = (memory.header().shut_down.load(std::memory_order_acquire) >> member & 1) != 0;
            const bool has_read_retirement = retired_at != kNotRetired && memory.cursor(member).position.load(
                                                                              std::memory_order_acquire) > retired_at;
            // It may have announced in between, and before that.
            if ((has_shut_down || has_read_retirement) && !has_announced()) {
                return Direct::withdrawn;
            }
            found = Direct::waiting;
        } else if ((copy_once(place.flags) & Place<Atomics>::kDirect) == 0) {
            return Direct::withdrawn;
        }
    }
    return found;
}

}  // namespace rueda::core
