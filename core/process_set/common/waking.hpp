// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/negotiation/ringing.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/urgency.hpp"

namespace rueda::core {

/// Wakes the members of a process set on this host. Each member's attention word says whether the member sleeps, and
/// whether a blocked caller or a background thread sleeps.
///
/// Threads: any thread. The caller of ring_readers() holds the enqueue lock.
class Waking {
public:
    explicit Waking(const SetView& view)
        : blocks_(view.arena.blocks()), memory_(view.memory), members_(view.extent().members), rank_(view.rank) {}

    void wake(std::uint32_t member) const { ring_if_sleeping(attention_of(member)); }

    /// Wakes the leader, unless this rank is the leader.
    void wake_leader() const {
        if (rank_ != 0) {
            wake(0);
        }
    }

    /// Wakes all other sleeping members. Call this when a batch starts or an operation ends for all members. The rank
    /// that appended the log entries woke only blocked callers; this function also wakes sleeping background threads.
    /// Members that are awake read the log without being woken.
    void wake_others() const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            if (member != rank_) {
                wake(member);
            }
        }
    }

    /// Wakes the threads that must read the log now. Call this after this rank has appended to the log.
    void announced_more(Urgency urgency) const {
        ring_readers_of_log(
            members_, rank_, /*own_background=*/urgency == Urgency::background, [this](std::uint32_t member) -> auto& {
                return attention_of(member);
            });
    }

    /// Wakes the members that announced the operation in `slot` and `generation` directly. Call this when this rank has
    /// announced the same operation, but not directly.
    void ring_direct_waiters(std::uint32_t slot, std::uint64_t generation) const {
        core::ring_direct_waiters(
            memory_, rank_, slot, generation, [this](std::uint32_t member) -> auto& { return attention_of(member); });
    }

    /// Wakes the members that have not read the log up to `position`.
    void ring_behind(std::uint64_t position) const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            if (member != rank_ && memory_.cursor(member).position.load(std::memory_order_relaxed) < position) {
                attention_of(member).ring(attention_of(member).state());
            }
        }
    }

    /// Like ring_behind(), but for a log position that all members must read before this rank can continue. A rank
    /// without pending operations reads the log only a few times per second, so this function wakes such a rank. It
    /// wakes the members only once for each position. This is enough, because a woken thread checks for unread entries
    /// before it releases the progress lock (ProgressLock::leave()). The caller holds the enqueue lock.
    void ring_readers(std::uint64_t position) {
        if (position != rung_for_) {
            rung_for_ = position;
            ring_behind(position);
        }
    }

    /// Wakes every sleeping member. Call this when the job ends.
    void ring_all() const {
        for (std::uint32_t member = 0; member < members_; ++member) {
            attention_of(member).ring_all();
        }
    }

private:
    [[nodiscard]] base::Attention<base::StdAtomics>& attention_of(std::uint32_t member) const {
        return blocks_.of(member).attention;
    }

    const base::HostBlocks& blocks_;
    const NegotiationMemory<base::StdAtomics>& memory_;
    std::uint32_t members_;
    std::uint32_t rank_;
    std::uint64_t rung_for_ = 0;  // the log position for which ring_readers() last woke the members
};

}  // namespace rueda::core
