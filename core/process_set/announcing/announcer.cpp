// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/announcing/announcer.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "base/system/memory_limits.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/foreign.hpp"

namespace rueda::core {

Announcer::Announcer(const base::Config& config, const SetView& view, Caller caller, const Parts& parts)
    : view_(view),
      memory_(view.memory),
      caller_(caller),
      inspection_(parts.inspection),
      direct_(parts.direct),
      joined_(parts.joined),
      recording_(parts.recording),
      ends_(parts.ends),
      reasons_(parts.reasons),
      waking_(parts.waking),
      cursor_(parts.cursor),
      writer_(view),
      compression_(config.compression),
      inspects_(parts.inspection.is_on()),
      no_memory_to_start_(ErrorCode::resource_exhausted,
                          "there is no memory left to start an operation; nothing was started, and it can be tried "
                          "again"),
      log_(view.memory, view.rank),
      registrar_(
          view.memory, view.rank,
          {.may_grow = [](std::uint64_t bytes) { return base::check_memory(bytes, "more slots for tensor names"); },
           .rank_of = [this](std::uint32_t member) { return view_.job_rank_of(member); }}),
      table_(view.extent().slots, view.extent().unnamed_slots) {}

TensorEntry& Announcer::pin(std::string_view name) {
    const std::lock_guard lock(enqueue_mutex_);
    TensorEntry& entry = table_.entry(name);
    ++entry.pins;
    return entry;
}

void Announcer::unpin(TensorEntry& entry) {
    const std::lock_guard lock(enqueue_mutex_);
    --entry.pins;
    table_.forget_if_unused(entry);
}

Status Announcer::check_open(std::string_view name) const {
    if (failed_.has_value()) [[unlikely]] {
        return EndReasons::about(name, *failed_);
    }
    if (shut_down_posted_) [[unlikely]] {
        return EndReasons::about(name, reasons_.shut_down_here());
    }
    if (memory_.header().shut_down.load(std::memory_order_acquire) != 0) [[unlikely]] {
        return reasons_.shut_down(name);
    }
    if (is_joining_) [[unlikely]] {
        return EndReasons::about(
            name,
            failure(ErrorCode::invalid_argument,
                    "rank {} is in join(), and can start nothing before all ranks have joined", view_.own_job_rank()));
    }
    return {};
}

bool Announcer::is_open() const {
    return !failed_.has_value() && !shut_down_posted_ &&
           memory_.header().shut_down.load(std::memory_order_acquire) == 0;
}

TensorEntry* Announcer::entry_of_slot(std::uint32_t slot) {
    if (slot >= memory_.extent().slots) {
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

void Announcer::complete_and_forget(TensorEntry& entry, const Status& status) {
    if (entry.held != nullptr) [[unlikely]] {
        // `entry` announces the number of members of a group. The members may be held back until the log calls this
        // operation. If members are still held back after that call, a faulty rank wrote the call.
        end_held(
            entry,
            !status.is_ok()
                ? status
                : failure(ErrorCode::internal,
                          "group '{}': the number of its members was called, but not as one that was announced in full",
                          entry.name));
    }
    ends_.complete(entry, status);
    table_.forget_if_unused(entry);
}

void Announcer::announce_held(TensorEntry& count) {
    for (TensorEntry* next = std::exchange(count.held, nullptr); next != nullptr;) {
        TensorEntry& member = *std::exchange(next, next->next);
        member.next = nullptr;
        member.is_held = false;
        if (member.pending.load(std::memory_order_relaxed)) {
            announce(member, Urgency::background);
        } else {
            table_.forget_if_unused(member);
        }
    }
}

void Announcer::end_held(TensorEntry& count, const Status& status) {
    for (TensorEntry* next = std::exchange(count.held, nullptr); next != nullptr;) {
        TensorEntry& member = *std::exchange(next, next->next);
        member.is_held = false;
        if (member.pending.load(std::memory_order_relaxed)) {
            complete_and_forget(member, status);
        } else {
            table_.forget_if_unused(member);
        }
    }
}

void Announcer::forget_uncalled() {
    if (caller_ == Caller::leader) {
        unposted_resolves_.clear();
    }
}

void Announcer::fail_all(const Status& reason) {
    failed_ = reason;
    fail_pending(reason);
}

void Announcer::fail_pending(const Status& reason) {
    fail_deferred(reason);
    unposted_resolves_.clear();
    direct_.forget();
    table_.for_each([&](TensorEntry& entry) {
        entry.in_full = false;
        if (entry.pending.load(std::memory_order_relaxed)) {
            ends_.complete(entry, EndReasons::about(entry.name, reason));
        }
    });
    deferred_.store(false, std::memory_order_seq_cst);
}

void Announcer::fail_deferred(const Status& reason) {
    for (; !unposted_.empty(); unposted_.pop_front()) {
        const Status status = EndReasons::about(unposted_.front().name, reason);
        end_held(unposted_.front(), status);
        ends_.complete(unposted_.front(), status);
    }
    tell_deferred();
    for (const Waiting& waiting : unnamed_waiting_) {
        ends_.uncount_one();
        waiting.completion->complete_one(reason);
    }
    unnamed_waiting_.clear();
}

std::vector<Announcer::PendingTensor> Announcer::pending_tensors() {
    const std::lock_guard lock(enqueue_mutex_);
    std::vector<PendingTensor> tensors;
    table_.for_each([&](const TensorEntry& entry) {
        if (entry.pending.load(std::memory_order_acquire)) {
            tensors.push_back({entry.name, entry.submitted_ns});
        }
    });
    return tensors;
}

/// This function compares only the address of `completion`, because its content may change at the same time.
void Announcer::add_awaited(const Completion& completion, std::vector<AwaitedTensor>& awaited) {
    table_.for_each([&](const TensorEntry& entry) {
        // This acquire load pairs with the release store in OperationEnds::complete(). This function skips members of a
        // group while they are held back, because these members are not announced yet. The result is not empty even
        // then: the operation that announces the number of members has the same completion, and is still pending.
        if (!entry.pending.load(std::memory_order_acquire) || entry.completion != &completion || entry.is_held) {
            return;
        }
        const std::uint64_t call = entry.name.empty() ? view_.call_of_unnamed(entry.slot, entry.generation) : 0;
        awaited.push_back({.name = entry.name,
                           .call = call,
                           .is_group = is_size_of_group(entry.request.metadata),
                           .waits_for_room = unposted_.contains(entry),
                           .slot = entry.slot,
                           .generation = entry.generation});
    });
    for (std::size_t i = 0; i < unnamed_waiting_.size(); ++i) {
        if (unnamed_waiting_[i].completion == &completion) {
            const TensorEntry& before = next_unnamed();
            awaited.push_back({.name = {},
                               .call = unnamed_calls_ + i + 1,
                               .waits_behind = view_.call_of_unnamed(before.slot, before.generation)});
        }
    }
}

}  // namespace rueda::core
