// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>

#include "base/shared_memory/attention.hpp"
#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

/// Decides which sleeping threads are woken after a rank has published something. Each function must come after a
/// seq_cst store, because Attention requires it. `attention_of(member)` returns the Attention of a member. Threads:
/// any.
namespace rueda::core {

/// Wakes the thread that sleeps for the rank, if there is one.
template <class Attention>
void ring_if_sleeping(Attention& attention) {
    if (const base::AttentionState state = attention.state(); state != base::AttentionState::awake) {
        attention.ring(state);
    }
}

/// Wakes the threads that must read the log now. These are the blocked callers and, with `own_background`, the sleeping
/// background thread of `rank`, because no other thread of this rank will read it. The rank that starts the batch wakes
/// the sleeping background threads of the other ranks.
template <class AttentionOf>
void ring_readers_of_log(std::uint32_t members, std::uint32_t rank, bool own_background, AttentionOf&& attention_of) {
    for (std::uint32_t member = 0; member < members; ++member) {
        auto& attention = attention_of(member);
        const base::AttentionState state = attention.state();
        if (state == base::AttentionState::blocked ||
            (member == rank && state == base::AttentionState::asleep && own_background)) {
            attention.ring(state);
        }
    }
}

/// Runs after `rank` has published that it counts its announcement. If members announced the same generation directly,
/// they must now count their announcements too, so they are woken.
template <class Atomics, class AttentionOf>
void ring_direct_waiters(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint32_t slot,
                         std::uint64_t generation, AttentionOf&& attention_of) {
    for (std::uint32_t member = 0; member < memory.extent().members; ++member) {
        if (member == rank) {
            continue;
        }
        auto& attention = attention_of(member);
        if (attention.state() != base::AttentionState::blocked) {
            continue;
        }
        const Place<Atomics>& place = memory.place(slot, member, generation);
        if (place.stamp.load(std::memory_order_acquire) == generation + 1 &&
            (copy_once(place.flags) & Place<Atomics>::kDirect) != 0) {
            attention.ring(base::AttentionState::blocked);
        }
    }
}

}  // namespace rueda::core
