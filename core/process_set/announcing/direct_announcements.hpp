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
/// blocking operation whose input is sent with the announcement. There is at most one such operation at a time.
///
/// Threads: the announcing thread sets the operation under the enqueue lock. The thread that drives progress reads it,
/// and removes it before it completes the operation.
class DirectAnnouncements {
public:
    using Atomics = base::StdAtomics;

    /// All references must outlive this object. If `is_allowed` is false, no operation is announced directly.
    DirectAnnouncements(const SetView& view, bool is_allowed, DirectExecution& execution, Recording& recording,
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

    /// Whether an announcement may be direct. Its input must be sent with it, and its metadata must be as agreed. The
    /// caller's thread must be about to read the other members' places, because no other thread would.
    [[nodiscard]] bool may_begin(const TensorEntry& entry, Urgency urgency) const {
        return urgency != Urgency::background && entry.request.count > 0 &&
               direct_.load(std::memory_order_relaxed) == nullptr && !joined_.any() && is_allowed_;
    }
    /// Publishes the announcement that was written to `place`.
    void announce(TensorEntry& entry, Place<Atomics>& place, Urgency urgency);
    /// Whether finish_at_once() must be called for the last announcement.
    [[nodiscard]] bool is_at_once() const { return at_once_ != nullptr; }
    /// Whether another member may have announced directly what this rank counts. Members may decide differently,
    /// because the memory of an input and its number of rows decide whether it is sent with the announcement.
    [[nodiscard]] bool others_may_use(const TensorEntry& entry) const;
    /// Removes the operation. The caller must then count it, or end it in another way.
    TensorEntry& withdraw();
    void forget() { direct_.store(nullptr, std::memory_order_relaxed); }
    /// Whether `entry` is the operation that was announced directly, and whether `slot` is its slot.
    [[nodiscard]] bool is(const TensorEntry& entry) const { return direct_.load(std::memory_order_acquire) == &entry; }
    [[nodiscard]] bool uses(std::uint32_t slot) const {
        const TensorEntry* entry = direct_.load(std::memory_order_acquire);
        return entry != nullptr && entry->slot == slot;
    }

    // ---- progress ---------------------------------------------------------------------------------------------------

    /// Whether there is an operation. seq_cst: pairs with announce(), after which the announcing thread wakes the
    /// thread that drives progress.
    [[nodiscard]] bool any() const { return direct_.load(std::memory_order_seq_cst) != nullptr; }
    /// Checks whether the operation can be completed. There must be an operation. If all members have announced it,
    /// this function executes and ends it. If the result is `withdrawn`, the caller must call withdraw() and count the
    /// operation. For `last_position` see look_at_direct().
    DirectState turn(std::uint64_t last_position = kNoLastPosition);
    /// Records the log position of the first shutdown. Members that have read this entry announce nothing more.
    void note_closing(std::uint64_t position) { closing_at_ = position; }
    /// Checks up to `looks` times whether the operation that this thread has just announced can be completed. If it
    /// returns true, the operation has ended, and its completion is done if it was needed. If it returns false, the
    /// operation is pending like any other.
    [[nodiscard]] bool finish_at_once(int looks);

private:
    [[nodiscard]] bool execute(TensorEntry& entry);
    void note_use(const TensorEntry& entry) const;

    SetView view_;
    NegotiationMemory<Atomics> memory_;  // a copy, because the fast path of small operations reads it
    bool is_allowed_;
    DirectExecution& execution_;
    Recording& recording_;
    OperationEnds& ends_;
    const JoinedMembers& joined_;
    const Waking& waking_;
    const LogCursor& cursor_;
    std::atomic<TensorEntry*> direct_{nullptr};
    // Announced by the thread that drives progress, and not yet counted among the pending operations.
    TensorEntry* at_once_ = nullptr;
    std::uint64_t closing_at_ = kNoLastPosition;
};

}  // namespace rueda::core
