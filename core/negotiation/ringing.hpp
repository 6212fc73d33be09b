// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>

#include "base/shared_memory/attention.hpp"
#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

/// Decides which sleeping threads a rank wakes after it has published something. The publication must be a seq_cst
/// store: then either a thread that goes to sleep sees the publication, or these functions see that the thread sleeps.
/// `attention_of` is a function that returns the Attention of a member, the word that says whether its thread sleeps.
/// Threads: any.
namespace rueda::core {

/// Wakes the rank's sleeping thread, if there is one.
template <class Attention>
void ring_if_sleeping(Attention& attention) {
    if (const base::AttentionState state = attention.state(); state != base::AttentionState::awake) {
        attention.ring(state);
    }
}

/// Wakes all threads that wait in a blocking call, because they must read the log now. If `own_background` is true,
/// also wakes the sleeping background thread of `rank`, because no other thread of that rank will read the log. The
/// background threads of other ranks stay asleep; the rank that starts the batch wakes them. The function is inlined,
/// because a call costs 20 instructions in every blocking operation.
template <class AttentionOf>
[[gnu::always_inline]] inline void ring_readers_of_log(std::uint32_t members, std::uint32_t rank, bool own_background,
                                                       AttentionOf&& attention_of) {
    for (std::uint32_t member = 0; member < members; ++member) {
        auto& attention = attention_of(member);
        const base::AttentionState state = attention.state();
        if (state == base::AttentionState::blocked ||
            (member == rank && state == base::AttentionState::asleep && own_background)) {
            attention.ring(state);
        }
    }
}

/// Call this after `rank` has counted its announcement. Members that announced the same operation directly must now
/// count their announcements too. This function wakes those members.
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
