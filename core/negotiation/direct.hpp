// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The state of an operation that this rank announced directly: without the slot's counter and without the log
/// (docs/design/0001-negotiation.md, "Direct announcements").
enum class DirectState {
    waiting,   ///< some members have not announced this generation (this use of the slot) yet
    complete,  ///< all members announced the operation directly; the arena holds all its data
    /// A member counted its announcement instead, or will never announce this operation. So all members must use the
    /// log.
    withdrawn,
};

/// The value of `last_position` in look_at_direct() if no log entry ends the announcements.
inline constexpr std::uint64_t kNoLastPosition = ~std::uint64_t{0};

/// Reads the other members' announcements in `generation`, a use of `slot`. `rank` has announced this generation
/// directly. `last_position` is the log position of an entry that retires the slot, or of a *closing* entry (a rank has
/// shut down). A member that has read such an entry makes no further announcement in the slot.
///
/// If the result is `complete` or `withdrawn`, all members get the same result. The result `complete` stays, because a
/// member overwrites its announcement only after it has completed the operation. The result `withdrawn` stays, because
/// a member that has read the entry at `last_position` does not announce any more.
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
        // This load is seq_cst: a member stores its stamp, which publishes its announcement, and then checks whether
        // this rank sleeps. Either this load sees the stamp, or the member sees that this rank sleeps and wakes it.
        const auto has_announced = [&] { return place.stamp.load(std::memory_order_seq_cst) == generation + 1; };
        if (!has_announced()) {
            // This load is seq_cst: a member stores its cursor, and then checks whether this rank sleeps. Either this
            // load sees the new cursor, or the member sees that this rank sleeps and wakes it.
            const bool has_read_on = last_position != kNoLastPosition &&
                                     memory.cursor(member).position.load(std::memory_order_seq_cst) > last_position;
            // The second call of has_announced() loads the stamp again, because the member may have stored it between
            // the two loads above.
            if (has_read_on && !has_announced()) {
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
