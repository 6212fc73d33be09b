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

/// The operation that this rank has announced directly, if there is one (docs/design/0001-negotiation.md, "Direct
/// announcements"). There is at most one at a time. It is a blocking operation, and its input is sent with the
/// announcement.
///
/// Threads: the announcing thread sets the operation under the enqueue lock. The thread that drives progress reads and
/// removes the operation, and then completes it.
class DirectAnnouncements {
public:
    using Atomics = base::StdAtomics;

    /// The objects behind all references must outlive this object. If `is_allowed` is false, the rank announces nothing
    /// directly.
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

    /// Whether an operation may be announced directly. The caller must check two more conditions: the input is sent
    /// with the announcement, and the metadata are those that the ranks agreed on. The calling thread must be about to
    /// drive progress until the operation has ended, because otherwise no thread would read the announcements of the
    /// other members. The caller holds
    /// the enqueue lock.
    [[nodiscard]] bool may_begin(const TensorEntry& entry, Urgency urgency) const {
        return (urgency == Urgency::blocking || urgency == Urgency::driving) && entry.request.count > 0 &&
               direct_.load(std::memory_order_relaxed) == nullptr && !joined_.any() && is_allowed_;
    }
    /// Announces `entry` directly; the announcement is already written to `place`. The caller holds the enqueue lock.
    void announce(TensorEntry& entry, Place<Atomics>& place, Urgency urgency);
    /// Whether the operation that was announced last still waits for finish_at_once().
    [[nodiscard]] bool is_at_once() const { return at_once_ != nullptr; }
    /// Call this before this rank counts its announcement in the slot. Returns true if another member may announce the
    /// same operation directly. This is possible, because each member decides for itself whether it sends its input
    /// with the announcement. The decision depends on the kind of its memory and on its number of rows.
    [[nodiscard]] bool others_may_use(const TensorEntry& entry) const;
    /// Removes and returns the operation. The caller must then count the announcement in the slot's counter, or end the
    /// operation.
    TensorEntry& withdraw();
    void forget() { direct_.store(nullptr, std::memory_order_relaxed); }
    /// Whether `entry` is the directly announced operation.
    [[nodiscard]] bool is(const TensorEntry& entry) const { return direct_.load(std::memory_order_acquire) == &entry; }
    /// Whether the directly announced operation uses `slot`.
    [[nodiscard]] bool uses(std::uint32_t slot) const {
        const TensorEntry* entry = direct_.load(std::memory_order_acquire);
        return entry != nullptr && entry->slot == slot;
    }

    /// Whether an operation is announced directly. The load is seq_cst: before a thread sleeps, it marks this rank as
    /// asleep and then calls any(). Either the thread sees the operation, or the announcing thread sees the mark and
    /// wakes it.
    [[nodiscard]] bool any() const { return direct_.load(std::memory_order_seq_cst) != nullptr; }
    /// Checks whether the directly announced operation can be completed. There must be such an operation. If all
    /// members have announced it directly, this function executes and ends the operation. If the result is `withdrawn`,
    /// the caller must call withdraw() and count the announcement in the slot's counter. look_at_direct() explains
    /// `last_position`.
    DirectState turn(std::uint64_t last_position = kNoLastPosition);
    /// Records the log position of the *closing* entry, which says that a rank has shut down. A member that has read
    /// this entry announces nothing more.
    void note_closing(std::uint64_t position) { closing_at_ = position; }
    /// Checks up to `looks` times whether the operation that this thread has just announced can be completed. Returns
    /// true if the operation has ended. Its Completion object is then marked as done only if it holds a part of the
    /// result (for an operation of variable size). Returns false if the operation has not ended. It is then pending
    /// like any other operation.
    [[nodiscard]] bool finish_at_once(int looks);

private:
    [[nodiscard]] bool execute(TensorEntry& entry);
    void note_use(const TensorEntry& entry) const;

    SetView view_;
    NegotiationMemory<Atomics> memory_;  // a copy, so that the fast path of small operations has one indirection less
    bool is_allowed_;
    DirectExecution& execution_;
    Recording& recording_;
    OperationEnds& ends_;
    const JoinedMembers& joined_;
    const Waking& waking_;
    const LogCursor& cursor_;
    std::atomic<TensorEntry*> direct_{nullptr};
    // The operation that the thread with the progress lock has just announced. Null when the operation counts as
    // pending like any other.
    TensorEntry* at_once_ = nullptr;
    std::uint64_t at_once_number_ = 0;  // the number of the operation `at_once_` in the flight recorder
    std::uint64_t closing_at_ = kNoLastPosition;
};

}  // namespace rueda::core
