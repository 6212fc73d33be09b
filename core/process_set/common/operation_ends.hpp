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

/// Ends operations of a set, and counts the pending ones. Ends the job if a rank cannot continue.
///
/// Threads: complete() under the enqueue lock, or in the thread that drives progress; the other functions in any
/// thread.
class OperationEnds {
public:
    /// `pending`: see ProcessSet.
    OperationEnds(const SetView& view, const Waking& waking, const Recording& recording,
                  std::atomic<std::uint32_t>& pending);

    /// Adds one to the number of pending operations, or subtracts one.
    void count_one() { pending_.fetch_add(1, std::memory_order_seq_cst); }
    void uncount_one() { pending_.fetch_sub(1, std::memory_order_seq_cst); }

    /// Ends a pending operation and uncounts it. Afterwards the caller may submit the name again.
    void complete(TensorEntry& entry, const Status& status) { complete(entry, status, base::ticks_now()); }
    /// The same for an operation that ended at `ticks`, a time of base::ticks_now().
    void complete(TensorEntry& entry, const Status& status, std::uint64_t ticks);
    /// Ends a pending operation that is not counted, with success, in the thread that has announced it. Its completion
    /// is marked as done only if it has a result.
    void complete_uncounted(TensorEntry& entry, bool has_result, std::uint64_t started, std::uint64_t ended) {
        Completion& completion = *entry.completion;
        note_finished(entry);
        recording_.executed(entry, started, ended);
        if (notes_memory()) [[unlikely]] {
            note_ended(entry);
        }
        entry.pending.store(false, std::memory_order_release);  // pairs with the next submit of this name
        if (has_result) {
            completion.complete_one({});
        }
    }
    /// Removes the record of the operation that was finished last, if it was in `slot`. Called before the slot is given
    /// to another name, because then the operation's name cannot be found any more. The next store of this rank's log
    /// position publishes this.
    void forget_finished(std::uint32_t slot);

    /// Ends the job. If there is no memory to add the name of the set, the reason is the text alone.
    void raise(ErrorCode code, std::string_view text) noexcept;
    void raise(const Status& reason) noexcept { raise(reason.code(), reason.message()); }
    /// Ends the job because this rank has not enough memory for its part of an operation.
    void raise_no_memory() noexcept { raise(ErrorCode::resource_exhausted, no_memory_to_go_on_); }
    /// Whether the job has ended.
    [[nodiscard]] bool has_aborted() const { return view_.arena.blocks().abort().raised(); }

private:
    /// For stall reports. An operation without a slot is stored as 0 (kNoSlot + 1), because it has no name to report.
    /// Relaxed, because it is read seconds later.
    void note_finished(const TensorEntry& entry) {
        finished_.store(entry.generation << kFinishedSlotBits | (entry.slot + 1), std::memory_order_relaxed);
    }

    const SetView& view_;
    const Waking& waking_;
    const Recording& recording_;
    std::atomic<std::uint32_t>& pending_;
    base::StdAtomics::Atomic<std::uint64_t>& finished_;  // in this rank's cursor
    // allocated in advance, because there may be no memory for it later
    std::string no_memory_to_go_on_;
};

}  // namespace rueda::core
