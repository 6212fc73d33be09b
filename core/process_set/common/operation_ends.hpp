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

/// Ends the operations of a process set, and counts the pending operations. Can also end the job.
///
/// Threads: complete() runs under the enqueue lock, or in the thread that drives progress; the other functions run in
/// any thread.
class OperationEnds {
public:
    /// `pending` counts the pending operations of all sets of this rank; see the constructor of ProcessSet.
    OperationEnds(const SetView& view, const Waking& waking, const Recording& recording,
                  std::atomic<std::uint32_t>& pending);

    /// These two functions add one pending operation to the count, and subtract one. The accesses are seq_cst. A thread
    /// adds one and then tries to take the progress lock. The holder of the lock releases it and then reads the count
    /// (ProgressLock::leave()). Either the thread gets the lock, or the holder sees the operation.
    void count_one() { pending_.fetch_add(1, std::memory_order_seq_cst); }
    void uncount_one() { uncount(1); }
    void uncount(std::uint32_t operations) { pending_.fetch_sub(operations, std::memory_order_seq_cst); }
    /// The number of pending operations of all sets of this rank. The load is relaxed: the number is only for the
    /// decision how long a batch stays open.
    [[nodiscard]] std::uint32_t pending() const { return pending_.load(std::memory_order_relaxed); }

    /// Ends a pending operation, and subtracts it from the count of pending operations. The caller may then submit the
    /// name again.
    void complete(TensorEntry& entry, const Status& status) { complete(entry, status, base::ticks_now()); }
    /// Like complete() above, for an operation that ended at `ticks` (base::ticks_now()).
    void complete(TensorEntry& entry, const Status& status, std::uint64_t ticks) {
        uncount_one();
        end(entry, status, ticks);
    }
    /// Like complete(), but the caller has already subtracted the operation from the count with uncount().
    void end(TensorEntry& entry, const Status& status, std::uint64_t ticks);
    /// Ends an operation with success. This thread must have announced the operation, and the operation must not be
    /// counted as pending. `has_result` is true if the Completion object holds a part of the result. Only then is the
    /// Completion object marked as done.
    void complete_uncounted(TensorEntry& entry, bool has_result, std::uint64_t started, std::uint64_t ended) {
        Completion& completion = *entry.completion;
        note_finished(entry);
        recording_.executed(entry, started, ended);
        if (notes_memory()) [[unlikely]] {
            note_ended(entry);
        }
        // this release store pairs with the acquire load in the next submit of this name
        entry.pending.store(false, std::memory_order_release);
        if (has_result) {
            completion.complete_one({});
        }
    }
    /// Lets the caller submit the name of `entry` again, because the device has got all work of the operation. The
    /// operation stays counted as pending. Returns the completion of the operation, or null if no caller on this rank
    /// waits. The caller of launch() must mark the completion as done when the device has done the work.
    [[nodiscard]] Completion* launch(TensorEntry& entry);
    /// Subtracts a launched operation (see launch()) from the count, because the device has done its work or the
    /// operation has failed. `record` is the operation's number in the flight recorder.
    void end_launched(std::uint64_t record, ErrorCode code) {
        recording_.ended_launched(record, code);
        uncount_one();
    }
    /// Whether a timeline is on, so that the work of devices is measured.
    [[nodiscard]] bool has_timeline() const { return recording_.has_timeline(); }
    /// Records, for a timeline, when a device did the work of a batch.
    void note_gpu(collectives::Operation operation, std::int32_t device, std::size_t operations, std::int64_t begin_ns,
                  std::int64_t end_ns) const {
        recording_.note_gpu(operation, device, operations, begin_ns, end_ns);
    }
    /// This rank notes which operation it finished last. If that operation used `slot`, this function removes the note.
    /// Call it before the slot loses its name, because readers of the note find the operation's name through the slot.
    /// The next store of this rank's cursor publishes the change.
    void forget_finished(std::uint32_t slot);

    /// Ends the job with an error. The text begins with the name of the set, if there is memory to add it.
    void raise(ErrorCode code, std::string_view text) noexcept;
    void raise(const Status& reason) noexcept { raise(reason.code(), reason.message()); }
    /// Ends the job because memory has run out during this rank's part of an operation.
    void raise_no_memory() noexcept { raise(ErrorCode::resource_exhausted, no_memory_to_go_on_); }
    /// Whether the job has ended.
    [[nodiscard]] bool has_aborted() const { return view_.arena.blocks().abort().raised(); }

private:
    /// Stores which operation was finished last, for stall reports: its generation, and its slot plus 1. An operation
    /// without a slot has no name to report; for it, kNoSlot + 1 overflows to 0. The store is relaxed, because the
    /// stall monitor reads the value only seconds later.
    void note_finished(const TensorEntry& entry) {
        finished_.store(entry.generation << kFinishedSlotBits | (entry.slot + 1), std::memory_order_relaxed);
    }

    const SetView& view_;
    const Waking& waking_;
    const Recording& recording_;
    std::atomic<std::uint32_t>& pending_;
    base::StdAtomics::Atomic<std::uint64_t>& finished_;  // Cursor::finished of this rank
    // the text of raise_no_memory(), allocated in advance
    std::string no_memory_to_go_on_;
};

}  // namespace rueda::core
