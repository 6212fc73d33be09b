// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/recording.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/waking.hpp"
#include "core/termination/memory_guard.hpp"

namespace rueda::core {

/// Ends operations of a set, and counts those that are pending. Ends the job if a rank cannot go on.
///
/// Threads: complete() under the enqueue lock, or in the thread that drives progress; the rest, any.
class OperationEnds {
public:
    /// `pending`: see ProcessSet.
    OperationEnds(const SetView& view, const Waking& waking, const Recording& recording,
                  std::atomic<std::uint32_t>& pending);

    /// Adds one to the count of pending operations, or removes one.
    void count_one() { pending_.fetch_add(1, std::memory_order_seq_cst); }
    void uncount_one() { pending_.fetch_sub(1, std::memory_order_seq_cst); }

    /// Ends a pending operation that is counted. Afterwards the caller may submit the name again.
    void complete(TensorEntry& entry, const Status& status) { complete(entry, status, base::ticks_now()); }
    /// The same for an operation that ended at this time.
    void complete(TensorEntry& entry, const Status& status, std::uint64_t ticks);
    /// Ends a pending operation with success, in the thread that has announced it. The operation is not counted. Its
    /// completion is marked as done only if it has to report something.
    void complete_uncounted(TensorEntry& entry, bool has_result, std::uint64_t ticks) {
        Completion& completion = *entry.completion;
        note_finished(entry);
        recording_.ended(entry, ErrorCode::ok, ticks);
        if (notes_memory()) [[unlikely]] {
            note_ended(entry);
        }
        entry.pending.store(false, std::memory_order_release);  // partner: the next submit of this name
        if (has_result) {
            completion.complete_one({});
        }
    }
    /// Removes the note of the last operation that was finished in `slot`, before the slot is given to another name:
    /// that operation cannot be named any more. The position of the log that is published next publishes this.
    void forget_finished(std::uint32_t slot);

    /// Ends the job. Without memory for the name of the set, the text alone is the reason.
    void raise(ErrorCode code, std::string_view text) noexcept;
    void raise(const Status& reason) noexcept { raise(reason.code(), reason.message()); }
    /// Ends the job because this rank has no memory to do its part of an operation.
    void raise_no_memory() noexcept { raise(ErrorCode::resource_exhausted, no_memory_to_go_on_); }
    /// Whether the job has ended.
    [[nodiscard]] bool has_aborted() const { return view_.arena.blocks().abort().raised(); }

private:
    /// For stall reports. Without a slot (kNoSlot + 1 is 0) there is no name to tell. Relaxed: it is read seconds
    /// later.
    void note_finished(const TensorEntry& entry) {
        finished_.store(entry.generation << kFinishedSlotBits | (entry.slot + 1), std::memory_order_relaxed);
    }

    const SetView& view_;
    const Waking& waking_;
    const Recording& recording_;
    std::atomic<std::uint32_t>& pending_;
    base::StdAtomics::Atomic<std::uint64_t>& finished_;  // in this rank's cursor
    std::string no_memory_to_go_on_;                     // made in advance, because there may be no memory for it later
};

}  // namespace rueda::core
