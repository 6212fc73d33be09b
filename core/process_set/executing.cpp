// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Executes the operations that the log calls: at once if all inputs were sent with the announcements, otherwise as a
// task of a communicator.
#include <algorithm>
#include <cstring>

#include "base/system/clock.hpp"
#include "core/negotiation/batch_end.hpp"
#include "core/process_set/batch_runner.hpp"

namespace rueda::core {

using collectives::Operation;

Turn BatchRunner::start_batch(std::uint64_t position, bool urgent, bool asks_others) {
    std::uint64_t end = log_.end_of_batch(position);
    if (end == Log<Atomics>::kOpen) {
        const BatchEnd proposed = propose_batch_end(log_, position, fusion_threshold_bytes_);
        if (!proposed.complete && stays_open(position, proposed.end, urgent, asks_others)) {
            return Turn::holding;
        }
        end = log_.close_batch(position, proposed.end);
    }
    if (!log_.is_plausible_end(position, end)) {
        ends_.raise(ErrorCode::internal, fmt::format("the batch at {} of the log ends at {}", position, end));
        return Turn::idle;
    }
    const bool is_done = end == position + 1 && (run_inline(position) || run_carried(position));
    return is_done ? Turn::advanced : run_batch(position, end);
}

/// Whether this rank waits for more operations before it closes the batch at `position`. `end` is where the batch would
/// end now. A caller that waits closes the batch at once in two cases. If no pending operation of this rank could be
/// added, the batch does not grow. If `asks_others` is false, this thread may sleep after this turn, and no thread
/// would wake it when the batch has stopped growing.
bool BatchRunner::stays_open(std::uint64_t position, std::uint64_t end, bool urgent, bool asks_others) {
    if (urgent && (!asks_others || ends_.pending() <= end - position)) {
        return false;
    }
    const std::int64_t now = base::monotonic_ns();
    return urgent ? open_batch_.is_growing(position, end, now) : open_batch_.is_held(position, now);
}

/// Executes a batch that consists of one small allreduce, if all its inputs were sent with the announcements. For this,
/// the rank needs no task, and waits for no other rank. Wakes sleeping ranks, so that they execute the batch too.
/// Returns false, and does nothing, for any other batch.
bool BatchRunner::run_inline(std::uint64_t position) {
    const auto called = log_.read(position);
    TensorEntry* entry =
        called.kind == EntryKind::call && memory_.extent().inputs_travel() ? table_.at_slot(called.slot) : nullptr;
    if (entry == nullptr || entry->slot == kNoSlot || !entry->pending.load(std::memory_order_relaxed)) {
        return false;
    }
    const Request& request = entry->request;
    const std::uint64_t bytes = request.bytes();
    if (static_cast<Operation>(request.metadata.operation) != Operation::allreduce || request.count == 0) {
        return false;
    }
    Payloads payloads{};
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const Place<Atomics>& place = memory_.place(called.slot, member, entry->generation);
        payloads[member] = memory_.payload(called.slot, member, entry->generation, bytes);
        if ((place.flags & Place<Atomics>::kPayload) == 0 || place.payload_bytes != bytes ||
            payloads[member] == nullptr) {
            return false;  // the caller then calls run_batch(), which executes the batch or reports what is wrong
        }
    }
    waking_.wake_others();
    const std::uint64_t started = recording_.started_batch(std::span(&entry, 1), position);
    // This rank reads its input, and not the equal copy in its announcement. If it read the copy, the copy's cache
    // lines would leave the caches of the other cores.
    payloads[view_.rank] = request.input;
    if (checks_) [[unlikely]] {
        inspection_.inspect_again(*entry);
    }
    reduction_.reduce(request, payloads, request.output, request.count);
    cursor_.advance_to(position + 1);
    if (checks_ && verification_.begin(*entry)) [[unlikely]] {
        return true;
    }
    ends_.complete(*entry, {}, Recording::end_of(*entry, started));
    return true;
}

/// Executes a batch of one small allreduce on several hosts, whose result the root of the tree sent with the call. The
/// log entry refers to the attachment that holds the result. Returns false, and does nothing, for any other batch.
bool BatchRunner::run_carried(std::uint64_t position) {
    const auto called = log_.read(position);
    const std::uint32_t attachment = called.attachment;
    if (called.kind != EntryKind::call || attachment == 0 || attachment > memory_.extent().attachments ||
        called.slot >= memory_.extent().slots) {
        return false;
    }
    TensorEntry* entry = table_.at_slot(called.slot);
    if (entry == nullptr || entry->slot == kNoSlot || entry->stands_in ||
        !entry->pending.load(std::memory_order_relaxed) ||
        static_cast<Operation>(entry->request.metadata.operation) != Operation::allreduce ||
        entry->request.bytes() > memory_.extent().attachment_bytes) {
        return false;  // the caller then calls run_batch(), which executes the batch or reports what is wrong
    }
    waking_.wake_others();
    const std::uint64_t started = recording_.started_batch(std::span(&entry, 1), position);
    if (checks_) [[unlikely]] {
        inspection_.inspect_again(*entry);
    }
    std::memcpy(entry->request.output, memory_.attachment(attachment - 1), entry->request.bytes());
    cursor_.advance_to(position + 1);
    // The leader may sleep because all attachments are in use. Nothing else tells it that this rank has read some.
    constexpr std::uint32_t kReadsPerWake = 16;
    if (++carried_read_ % kReadsPerWake == 0) {
        waking_.wake_leader();
    }
    if (checks_ && verification_.begin(*entry)) [[unlikely]] {
        return true;
    }
    ends_.complete(*entry, {}, Recording::end_of(*entry, started));
    return true;
}

Turn BatchRunner::run_batch(std::uint64_t begin, std::uint64_t end) {
    batch_.begin(begin, end);
    // The block is large enough to hide the time in which a line moves between cores, and the lines of two blocks fit
    // into the L1 cache.
    constexpr std::uint64_t kBlock = 16;
    prefetch_entries(begin, std::min(begin + 2 * kBlock, end));
    prefetch_announcements(begin, std::min(begin + kBlock, end));
    for (std::uint64_t block = begin; block < end; block += kBlock) {
        prefetch_entries(block + 2 * kBlock, std::min(block + 3 * kBlock, end));
        prefetch_announcements(block + kBlock, std::min(block + 2 * kBlock, end));
        for (std::uint64_t position = block; position < std::min(block + kBlock, end); ++position) {
            if (const Status added = add_to_batch(position); !added.is_ok()) {
                ends_.raise(added);
                return Turn::idle;
            }
        }
    }
    waking_.wake_others();
    static_cast<void>(recording_.started_batch(batch_.entries(), begin));
    task_end_ = end;
    const Operation operation = batch_.operation();
    if (operation == Operation::group) {
        if (const Status settled = settle_numbers(batch_.first(), log_.read(begin).kind); !settled.is_ok()) {
            ends_.raise(settled);
            return Turn::idle;
        }
    }
    if (operation == Operation::group || operation == Operation::barrier) {
        finish_batch();
    } else {
        start_task();
    }
    return Turn::advanced;
}

void BatchRunner::prefetch_entries(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t position = begin; position < end; ++position) {
        if (const TensorEntry* const entry = table_.at_slot(log_.read(position).slot)) {
            entry->prefetch();
        }
    }
}

/// Prefetches the announcements of the other members, which are in the caches of their cores.
void BatchRunner::prefetch_announcements(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t position = begin; position < end; ++position) {
        const TensorEntry* const entry = table_.at_slot(log_.read(position).slot);
        for (std::uint32_t member = 0; entry != nullptr && member < memory_.extent().members; ++member) {
            if (entry->slot != kNoSlot && member != view_.rank) {
                const auto* const place = &memory_.place(entry->slot, member, entry->generation);
                __builtin_prefetch(place);
                __builtin_prefetch(reinterpret_cast<const std::byte*>(place) + base::kCacheLine);
            }
        }
    }
}

Status BatchRunner::add_to_batch(std::uint64_t position) {
    const auto called = log_.read(position);
    TensorEntry* const entry = called_entry(called);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed)) {
        return failure(ErrorCode::internal, "entry {} of the log calls slot {}, where rank {} has nothing pending",
                       position, called.slot, view_.own_job_rank());
    }
    if (entry->stands_in) [[unlikely]] {
        RUEDA_RETURN_IF_FAILED(join_.take_called(*entry, called.slot, entry->generation));
    }
    if (checks_) [[unlikely]] {
        inspection_.inspect_again(*entry);
    }
    return batch_.add(*entry, called, position);
}

/// Ends an operation in which each rank gives only one number. The number is either what the rank found when it checked
/// another operation (class Verification), or its number of members of a group.
Status BatchRunner::settle_numbers(TensorEntry& entry, EntryKind kind) {
    return entry.checks != nullptr ? verification_.settle(entry, batch_)
                                   : groups_.settle(entry, batch_, kind == EntryKind::first_call);
}

void BatchRunner::start_task() {
    task_ = hosts_.exchange_splits(batch_);
    task_is_splits_ = task_ != nullptr;
    if (!task_is_splits_) {
        task_ = &start_data_task();
    }
    turn_task();
}

/// Starts the task that moves the batch's data. `after_splits` is true if the members have exchanged their splits; a
/// scatter is then executed as an alltoall.
collectives::Task& BatchRunner::start_data_task(bool after_splits) {
    if (batch_.is_on_device()) [[unlikely]] {
        return devices_.start(batch_, communicator_, after_splits);
    }
    collectives::Batch batch = batch_.for_communicator();
    batch.operation = after_splits ? Operation::alltoall : batch.operation;
    return communicator_.start(batch);
}

/// Starts the task that moves the data, after the splits of an alltoall or a scatter on several hosts have arrived.
void BatchRunner::take_splits() {
    task_is_splits_ = false;
    if (const Status taken = batch_.take_splits(); !taken.is_ok()) {
        ends_.raise(taken);
        return;
    }
    task_ = &start_data_task(/*after_splits=*/true);
}

TensorEntry* BatchRunner::called_entry(const Called& called) {
    if (called.slot >= memory_.extent().slots) {
        return nullptr;
    }
    if (called.kind == EntryKind::call) {
        return table_.at_slot(called.slot);
    }
    const std::lock_guard lock(announcer_.enqueue_mutex());
    TensorEntry* entry = announcer_.entry_of_slot(called.slot);
    if (entry == nullptr) {
        return nullptr;
    }
    if (called.kind == EntryKind::first_call) {
        entry->in_full = false;
        if (entry->stands_in && !join_.take_called(*entry, called.slot, 0).is_ok()) {
            return nullptr;
        }
        announcer_.table().bind(*entry, called.slot, entry->request.metadata);  // all ranks agree on these metadata
    } else {
        announcer_.table().unbind(*entry);
    }
    return entry;
}

void BatchRunner::finish_batch() {
    if (has_batch()) {
        hosts_.note_batch();
    }
    task_ = nullptr;
    cursor_.advance_to(task_end_);
    if (batch_.is_on_device()) [[unlikely]] {
        finish_on_device();
        return;
    }
    const std::uint64_t now = base::ticks_now();
    const auto entries = batch_.entries();
    const auto ends_plainly = [this](const TensorEntry* entry) { return !checks_ && entry->slot != kNoSlot; };
    // One subtraction for the whole batch is faster than one for each operation.
    ends_.uncount(static_cast<std::uint32_t>(std::count_if(entries.begin(), entries.end(), ends_plainly)));
    for (TensorEntry* entry : entries) {
        if (ends_plainly(entry)) {
            ends_.end(*entry, {}, now);
        } else if (checks_ && verification_.begin(*entry)) {
            continue;
        } else if (entry->slot == kNoSlot) {
            const std::lock_guard lock(announcer_.enqueue_mutex());
            announcer_.complete_and_forget(*entry, {});
        } else {
            ends_.complete(*entry, {}, now);
        }
    }
}

/// Ends the batch after the device has got its work. Between finish() and forget_if_unused(), another thread could
/// submit the same name again. The lock prevents this.
void BatchRunner::finish_on_device() {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    devices_.finish(batch_.entries());
    for (TensorEntry* entry : batch_.entries()) {
        if (entry->slot == kNoSlot) {
            announcer_.table().forget_if_unused(*entry);
        }
    }
}

}  // namespace rueda::core
