// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/common/operation_ends.hpp"

#include <fmt/format.h>

#include <new>

namespace rueda::core {

OperationEnds::OperationEnds(const SetView& view, const Waking& waking, const Recording& recording,
                             std::atomic<std::uint32_t>& pending)
    : view_(view),
      waking_(waking),
      recording_(recording),
      pending_(pending),
      finished_(view.memory.cursor(view.rank).finished),
      no_memory_to_go_on_(fmt::format("rank {} ran out of memory in the middle of an operation", view.own_job_rank())) {
}

Completion* OperationEnds::launch(TensorEntry& entry) {
    Completion* const completion = entry.completion;
    if (notes_memory()) [[unlikely]] {
        note_ended(entry);
    }
    note_finished(entry);
    recording_.launched(entry, base::ticks_now());
    entry.request.device.reset();  // gives back the device event that says when the input is ready
    // From now on, a caller may submit this name again. This release store pairs with the load in that submit.
    entry.pending.store(false, std::memory_order_release);
    return completion;
}

void OperationEnds::end(TensorEntry& entry, const Status& status, std::uint64_t ticks) {
    Completion* completion = entry.completion;
    if (notes_memory()) [[unlikely]] {
        note_ended(entry);
    }
    if (status.is_ok()) {
        note_finished(entry);
    } else if (is_on_device(entry.request.metadata)) {
        entry.request.device.reset();
        if (completion != nullptr) {
            completion->fail(status);
            completion->launched(nullptr);
        }
    }
    recording_.ended(entry, status.code(), ticks);
    // From now on, a caller may submit this name again. This release store pairs with the load in that submit.
    entry.pending.store(false, std::memory_order_release);
    // null: this rank announced the operation only because it has joined, so none of its callers waits
    if (completion != nullptr) [[likely]] {
        completion->complete_one(status);
    }
}

void OperationEnds::forget_finished(std::uint32_t slot) {
    if (static_cast<std::uint32_t>(finished_.load(std::memory_order_relaxed)) == slot + 1) {
        // The store is relaxed, because this rank's next store to its cursor publishes the value. The registrar waits
        // for the cursor before it reuses the slot.
        finished_.store(0, std::memory_order_relaxed);
    }
}

void OperationEnds::raise(ErrorCode code, std::string_view text) noexcept {
    auto& abort = view_.arena.blocks().abort();
    try {
        abort.raise(code, view_.identity.title().append(text));
    } catch (const std::bad_alloc&) {
        abort.raise(code, text);
    }
    waking_.ring_all();
}

}  // namespace rueda::core
