// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/system/clock.hpp"
#include "core/negotiation/joining.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/waking.hpp"

namespace rueda::core {

/// Notifies members that have joined (docs/design/0005-join.md) of new announcements. A joined member announces the
/// operations of the other members too, but contributes no data.
///
/// Threads: any thread, under the enqueue lock; tell_of_posts() also without the lock.
class JoinedMembers {
public:
    JoinedMembers(const SetView& view, const Waking& waking)
        : memory_(view.memory), waking_(waking), members_(view.extent().members), rank_(view.rank) {}

    [[nodiscard]] bool any() const {
        // The load is acquire. A member may first join and then announce an operation. The last rank that announces
        // this operation must see that the member has joined.
        return memory_.header().joined.load(std::memory_order_acquire) != 0;
    }
    /// Notifies the joined members after this rank has announced `entry`. Exception: if this rank has joined and only
    /// repeats another rank's announcement, the announcement is not new, so the joined members are not notified.
    void tell(const TensorEntry& entry) const {
        const std::uint64_t joined = joined_to_tell(memory_);
        if (joined != 0 && !entry.stands_in) [[unlikely]] {
            wake(joined);
        }
    }
    /// Notifies the joined members after the registrar has handled the requests in the mailboxes. Each request may have
    /// made new names visible.
    void tell_of_posts() const {
        if (const std::uint64_t joined = joined_to_tell_of_posts(memory_); joined != 0) {
            wake(joined);
        }
    }
    /// Wakes the members in the mask `joined`, except this rank.
    void wake(std::uint64_t joined) const {
        memory_.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
        // The addition to `announced` is seq_cst. Before a member's thread sleeps, it marks itself as asleep and then
        // reads `announced` in Join::turn(). Either the thread sees the new count, or Waking::wake() below sees the
        // mark.
        memory_.header().announced.fetch_add(1, std::memory_order_seq_cst);
        for (std::uint32_t member = 0; member < members_; ++member) {
            if (member != rank_ && (joined >> member & 1) != 0) {
                waking_.wake(member);
            }
        }
    }

private:
    const NegotiationMemory<base::StdAtomics>& memory_;
    const Waking& waking_;
    std::uint32_t members_;
    std::uint32_t rank_;
};

}  // namespace rueda::core
