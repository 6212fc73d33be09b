// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/process_set/set_view.hpp"
#include "core/process_set/urgency.hpp"

namespace rueda::core {

/// Wakes the members of a set on this host. The attention word of each member says whether it sleeps, and how: as a
/// blocked caller or as a background thread.
///
/// Threads: any, except ring_readers().
class Waking {
public:
    explicit Waking(const SetView& view)
        : blocks_(view.arena.blocks()), memory_(view.memory), members_(view.extent().members), rank_(view.rank) {}

    void wake(std::uint32_t member) const {
        auto& attention = blocks_.of(member).attention;
        if (const auto state = attention.state(); state != base::AttentionState::awake) {
            attention.ring(state);
        }
    }

    /// Members that are awake take part as soon as they look. Sleeping members are woken here, once per batch, because
    /// the rank that appended did not wake them.
    void wake_others() const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            if (member != rank_) {
                wake(member);
            }
        }
    }

    /// Wakes the threads that must look at the log now: blocked callers, and this rank's background thread if no other
    /// thread of this rank is going to look. Sleeping background threads of other ranks are woken by the rank that
    /// starts the batch.
    void announced_more(Urgency urgency) const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            auto& attention = blocks_.of(member).attention;
            const base::AttentionState state = attention.state();
            const bool own_background =
                member == rank_ && state == base::AttentionState::asleep && urgency == Urgency::background;
            if (state == base::AttentionState::blocked || own_background) {
                attention.ring(state);
            }
        }
    }

    /// Rings the members that have not read the log up to `position`.
    void ring_behind(std::uint64_t position) const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            if (member != rank_ && memory_.cursor(member).position.load(std::memory_order_relaxed) < position) {
                auto& attention = blocks_.of(member).attention;
                attention.ring(attention.state());
            }
        }
    }

    /// Rings the members that have not read the log up to `position`, for which the registrar waits: a rank with
    /// nothing pending reads the log only a few times per second. It rings once. If that ring comes while a thread of
    /// the rank drives progress, the periodic reading makes up for it. Under the enqueue lock.
    void ring_readers(std::uint64_t position) {
        if (position != rung_for_) {
            rung_for_ = position;
            ring_behind(position);
        }
    }

    /// Wakes every member, however it sleeps, because the job ends.
    void ring_all() const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            blocks_.of(member).attention.ring_all();
        }
    }

private:
    const base::HostBlocks& blocks_;
    const NegotiationMemory<base::StdAtomics>& memory_;
    std::uint32_t members_;
    std::uint32_t rank_;
    std::uint64_t rung_for_ = 0;  // a log position
};

}  // namespace rueda::core
