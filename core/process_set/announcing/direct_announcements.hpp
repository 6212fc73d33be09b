// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/negotiation/direct.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/direct_execution.hpp"
#include "core/process_set/common/joined_members.hpp"
#include "core/process_set/common/log_cursor.hpp"
#include "core/process_set/common/operation_ends.hpp"
#include "core/process_set/common/recording.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/urgency.hpp"
#include "core/process_set/common/waking.hpp"

namespace rueda::core {

/// The operation that this rank has announced directly (docs/design/0001-negotiation.md, "Direct announcements"): a
/// blocking operation whose input travels with the announcement. There is at most one at a time.
///
/// Threads: the announcing thread makes it under the enqueue lock. The thread that drives progress reads it, and
/// removes it before it completes the operation.
class DirectAnnouncements {
public:
    using Atomics = base::StdAtomics;

    /// All references outlive this object. If not `is_allowed`, nothing is announced directly.
    DirectAnnouncements(const SetView& view, bool is_allowed, DirectExecution& execution, const Recording& recording,
                        OperationEnds& ends, const JoinedMembers& joined, const Waking& waking, const LogCursor& cursor)
        : view_(view),
          memory_(view.memory),
          is_allowed_(is_allowed),
          execution_(execution),
          recording_(recording),
          ends_(ends),
          joined_(joined),
          waking_(waking),
          cursor_(cursor) {}

    // ---- announcing, under the enqueue lock -------------------------------------------------------------------------

    /// Whether an announcement whose input travels with it, and whose metadata are as agreed, may be direct. The caller
    /// itself must be about to look at the other members' places, because no other thread would.
    [[nodiscard]] bool may_begin(const TensorEntry& entry, Urgency urgency) const {
        return urgency != Urgency::background && entry.request.count > 0 &&
               direct_.load(std::memory_order_relaxed) == nullptr && !joined_.any() && is_allowed_;
    }
    /// Publishes the announcement that was written to `place`.
    void announce(TensorEntry& entry, Place<Atomics>& place, Urgency urgency);
    /// Whether the last announcement is for finish_at_once().
    [[nodiscard]] bool is_at_once() const { return at_once_ != nullptr; }
    /// Whether another member might have announced directly what this rank counts. Whether an input travels depends on
    /// where it lies, and on its number of rows if ranks may have different ones.
    [[nodiscard]] bool others_may_use(const TensorEntry& entry) const;
    /// Removes the operation, which the caller counts or ends in another way.
    TensorEntry& withdraw();
    void forget() { direct_.store(nullptr, std::memory_order_relaxed); }
    /// Whether `entry` is the operation; and whether `slot` is its slot.
    [[nodiscard]] bool is(const TensorEntry& entry) const { return direct_.load(std::memory_order_acquire) == &entry; }
    [[nodiscard]] bool uses(std::uint32_t slot) const {
        const TensorEntry* entry = direct_.load(std::memory_order_acquire);
        return entry != nullptr && entry->slot == slot;
    }

    // ---- progress ---------------------------------------------------------------------------------------------------

    /// Whether there is an operation. seq_cst: partner of announce(), after which the announcing thread wakes the
    /// thread that drives progress.
    [[nodiscard]] bool any() const { return direct_.load(std::memory_order_seq_cst) != nullptr; }
    /// Looks whether the operation can go on. There must be one. If all members have announced it, it is executed and
    /// ends. If the result is `withdrawn`, the caller has to withdraw() and count it. `last_position`: as
    /// look_at_direct() says.
    DirectState turn(std::uint64_t last_position = kNoLastPosition);
    /// The first shutdown is at this position of the log. Members that have read it announce nothing more.
    void note_closing(std::uint64_t position) { closing_at_ = position; }
    /// Looks `looks` times whether the operation that this thread has just announced can be completed. If it returns
    /// true, the operation has ended, and its completion is done if it was needed. If it returns false, the operation
    /// is pending like any other.
    [[nodiscard]] bool finish_at_once(int looks);

private:
    [[nodiscard]] std::optional<std::uint64_t> execute(TensorEntry& entry);
    void note_use(const TensorEntry& entry) const;

    SetView view_;
    NegotiationMemory<Atomics> memory_;  // a copy, because the shortest path reads it
    bool is_allowed_;
    DirectExecution& execution_;
    const Recording& recording_;
    OperationEnds& ends_;
    const JoinedMembers& joined_;
    const Waking& waking_;
    const LogCursor& cursor_;
    std::atomic<TensorEntry*> direct_{nullptr};
    // announced by the thread that drives progress, and not counted among the pending operations yet
    TensorEntry* at_once_ = nullptr;
    std::uint64_t closing_at_ = kNoLastPosition;
};

}  // namespace rueda::core
