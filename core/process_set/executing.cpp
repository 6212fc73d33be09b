// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Executes what the log calls: directly if all inputs travelled with the announcements, else as a task of a
// communicator.
#include <array>
#include <cstring>

#include "base/system/clock.hpp"
#include "core/negotiation/batch_end.hpp"
#include "core/process_set/process_set.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

using collectives::Operation;

Turn ProcessSet::start_batch(std::uint64_t position, bool urgent) {
    std::uint64_t end = log_.end_of_batch(position);
    if (end == Log<Atomics>::kOpen) {
        const BatchEnd proposed = propose_batch_end(log_, position, fusion_threshold_bytes_);
        if (!urgent && !proposed.complete && hold_ns_ > 0) {
            const std::int64_t now = base::monotonic_ns();
            if (open_since_position_ != position) {
                open_since_position_ = position;
                hold_until_ns_ = now + hold_ns_;
            }
            if (now < hold_until_ns_) {
                return Turn::holding;
            }
        }
        end = log_.close_batch(position, proposed.end);
    }
    if (!log_.is_plausible_end(position, end)) {
        raise(ErrorCode::internal, fmt::format("the batch at {} of the log ends at {}", position, end));
        return Turn::idle;
    }
    return end == position + 1 && run_inline(position) ? Turn::advanced : run_batch(position, end);
}

/// The shortest path, for the smallest tensors. A batch of one allreduce whose inputs all travelled with the
/// announcements needs no task and no other rank. Other ranks that sleep have to be woken so that they execute it too.
/// Returns false, and does nothing, if it is not such a batch.
bool ProcessSet::run_inline(std::uint64_t position) {
    const auto called = log_.read(position);
    TensorEntry* entry =
        called.kind == EntryKind::call && extent_.inputs_travel() ? table_.at_slot(called.slot) : nullptr;
    if (entry == nullptr || entry->slot == kNoSlot || !entry->pending.load(std::memory_order_relaxed)) {
        return false;
    }
    const Request& request = entry->request;
    const std::uint64_t bytes = request.bytes();
    if (static_cast<Operation>(request.metadata.operation) != Operation::allreduce || request.count == 0) {
        return false;
    }
    Payloads payloads{};
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        const Place<Atomics>& place = memory_.place(called.slot, member, entry->generation);
        payloads[member] = memory_.payload(called.slot, member, entry->generation, bytes);
        if ((place.flags & PlaceFlags::kPayload) == 0 || place.payload_bytes != bytes || payloads[member] == nullptr) {
            return false;  // the batch takes another path, or run_batch() reports what is wrong with it
        }
    }
    waking_.wake_others();
    // the announced copy is the same; reading the input leaves the copy's cache lines with the ranks that read them
    payloads[rank_] = request.input;
    if (checks_) [[unlikely]] {
        inspect_again(*entry);
    }
    reduce_payloads(request, payloads, request.output, request.count);
    advance_to(position + 1);
    if (checks_ && begin_check(*entry)) [[unlikely]] {
        return true;
    }
    complete(*entry, {});
    return true;
}

/// Combines `count` elements in the order of the set.
void ProcessSet::reduce_payloads(const Request& request, const Payloads& payloads, std::byte* output,
                                 std::uint64_t count) const {
    ops::Reduction reduction = reduction_of(request.metadata);
    reduction.divisor = static_cast<int>(extent_.members);
    nodes_.reduce(reduction, {payloads.data(), extent_.members}, {&output, 1}, count);
}

Turn ProcessSet::run_batch(std::uint64_t begin, std::uint64_t end) {
    batch_.begin(begin, end);
    for (std::uint64_t position = begin; position < end; ++position) {
        if (const Status added = add_to_batch(position); !added.is_ok()) {
            raise(added.code(), added.message());
            return Turn::idle;
        }
    }
    waking_.wake_others();
    task_end_ = end;
    const Operation operation = batch_.operation();
    if (operation == Operation::group) {
        if (const Status settled = settle_numbers(batch_.first(), log_.read(begin).kind); !settled.is_ok()) {
            raise(settled.code(), settled.message());
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

Status ProcessSet::add_to_batch(std::uint64_t position) {
    const auto called = log_.read(position);
    TensorEntry* const entry = called_entry(called);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed)) {
        return failure(ErrorCode::internal, "entry {} of the log calls slot {}, where rank {} has nothing pending",
                       position, called.slot, own_job_rank());
    }
    if (entry->stands_in) [[unlikely]] {
        RUEDA_RETURN_IF_FAILED(take_called(*entry, called.slot, entry->generation));
    }
    if (checks_) [[unlikely]] {
        inspect_again(*entry);
    }
    return batch_.add(*entry, called, position);
}

/// Ends an operation that only exchanges numbers and moves no data: the findings of the ranks, or the sizes of their
/// groups.
Status ProcessSet::settle_numbers(TensorEntry& entry, EntryKind kind) {
    return entry.checks != nullptr ? settle_check(entry) : settle_group(entry, kind == EntryKind::first_call);
}

void ProcessSet::start_task() {
    if (hierarchical_communicator_ == nullptr) {
        task_ = &host_communicator_->start(batch_.for_communicator());
    } else if (collectives::has_splits(batch_.operation())) {
        const CalledBatch::Splits splits = batch_.begin_splits();
        task_ = &hierarchical_communicator_->start_splits(splits.to, splits.from);
        task_is_splits_ = true;
    } else {
        task_ = &hierarchical_communicator_->start(batch_.for_communicator());
    }
    turn_task();
}

/// The splits of an alltoall or a scatter on several hosts have arrived; the data follows.
void ProcessSet::take_splits() {
    task_is_splits_ = false;
    if (const Status taken = batch_.take_splits(); !taken.is_ok()) {
        raise(taken.code(), taken.message());
        return;
    }
    collectives::Batch batch = batch_.for_communicator();
    batch.operation = Operation::alltoall;
    task_ = &hierarchical_communicator_->start(batch);
}

TensorEntry* ProcessSet::called_entry(const Log<Atomics>::Entry& called) {
    if (called.slot >= extent_.slots) {
        return nullptr;
    }
    if (called.kind == EntryKind::call) {
        return table_.at_slot(called.slot);
    }
    const std::lock_guard lock(enqueue_mutex_);
    TensorEntry* entry = entry_of_slot(called.slot);
    if (entry == nullptr) {
        return nullptr;
    }
    if (called.kind == EntryKind::first_call) {
        entry->in_full = false;
        if (entry->stands_in && !take_called(*entry, called.slot, 0).is_ok()) {
            return nullptr;
        }
        table_.bind(*entry, called.slot, entry->request.metadata);  // all ranks agree on this metadata
    } else {
        table_.unbind(*entry);  // the operation is pending, so the entry stays
    }
    return entry;
}

/// The entry that is bound to the slot, or whose name this rank has announced in full. Under the enqueue lock.
TensorEntry* ProcessSet::entry_of_slot(std::uint32_t slot) {
    if (slot >= extent_.slots) {
        return nullptr;
    }
    if (TensorEntry* bound = table_.at_slot(slot)) {
        return bound;
    }
    const SlotRecord& record = memory_.record(slot);
    const std::uint32_t name_bytes = copy_once(record.name_bytes);
    if (name_bytes == 0 || name_bytes > RUEDA_MAX_NAME) {
        return nullptr;
    }
    std::array<char, RUEDA_MAX_NAME> name;
    std::memcpy(name.data(), record.name, name_bytes);
    TensorEntry* entry = table_.find(std::string_view(name.data(), name_bytes));
    return entry != nullptr && entry->slot == kNoSlot && entry->in_full ? entry : nullptr;
}

void ProcessSet::finish_batch() {
    constexpr std::int64_t kSendingNs = 1'000'000'000;
    if (transport_ != nullptr && task_ != nullptr) {
        sending_until_ns_.store(base::coarse_monotonic_ns() + kSendingNs, std::memory_order_relaxed);
    }
    task_ = nullptr;
    advance_to(task_end_);
    for (TensorEntry* entry : batch_.entries()) {
        if (checks_ && begin_check(*entry)) [[unlikely]] {
            continue;
        }
        if (entry->slot == kNoSlot) {
            const std::lock_guard lock(enqueue_mutex_);
            complete_and_forget(*entry, {});
        } else {
            complete(*entry, {});
        }
    }
}

}  // namespace rueda::core
