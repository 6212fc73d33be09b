// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/process_set.hpp"

#include <new>

#include "base/system/memory_limits.hpp"
#include "core/negotiation/claims.hpp"
#include "core/termination/memory_guard.hpp"

namespace rueda::core {

namespace {

/// Turns a reason that ends many operations into the error of this one. `name` is empty for an operation without a
/// name. If the reason begins with this tensor, it is not named again.
Status about(std::string_view name, const Status& reason) {
    try {
        const std::string whose = name.empty() ? "" : fmt::format("tensor '{}'", name);
        return reason.message().starts_with(whose) ? reason : failure(reason.code(), "{}: {}", whose, reason.message());
    } catch (const std::bad_alloc&) {
        return reason;
    }
}

}  // namespace

ProcessSet::ProcessSet(const base::Config& config, SetIdentity identity, std::shared_ptr<collectives::Arena> arena,
                       const NegotiationExtent& extent, const collectives::NumaNodes& nodes,
                       const std::optional<OtherHosts>& others, std::atomic<std::uint32_t>& pending)
    : identity_(std::move(identity)),
      arena_(std::move(arena)),
      extent_(extent),
      leader_calls_(extent.has_leader()),
      memory_(arena_->negotiation(), extent),
      log_(memory_, arena_->rank()),
      registrar_(
          memory_, arena_->rank(),
          {.may_grow = [](std::uint64_t bytes) { return base::check_memory(bytes, "more slots for tensor names"); },
           .rank_of = [this](std::uint32_t member) { return view_.job_rank_of(member); }}),
      rank_(arena_->rank()),
      set_rank_(others ? static_cast<std::uint32_t>(others->group.rank) : rank_),
      set_size_(others ? static_cast<std::uint32_t>(others->group.size) : extent.members),
      view_{identity_, *arena_, memory_, rank_, set_rank_, set_size_},
      writer_(view_),
      announced_(view_),
      outputs_(identity_, set_rank_),
      waking_(view_),
      fusion_threshold_bytes_(config.fusion_threshold_bytes),
      hold_ns_(static_cast<std::int64_t>(config.hold_seconds * 1e9)),
      compression_rules_(base::CompressionRules::parse(config.compression).value_or(base::CompressionRules())),
      nodes_(nodes),
      verify_(config.verify),
      check_nan_(config.check_nan),
      checks_(verify_ != 0 || check_nan_),
      no_memory_to_start_(ErrorCode::resource_exhausted,
                          "there is no memory left to start an operation; nothing was started, and it can be tried "
                          "again"),
      no_memory_to_say_who_(ErrorCode::aborted, "a rank has shut down, so nothing can be done together any more"),
      no_memory_to_go_on_(
          fmt::format("rank {} ran out of memory in the middle of an operation", identity_.ranks[set_rank_])),
      table_(extent.slots, extent.unnamed_slots),
      pending_(pending),
      batch_(view_, announced_, outputs_) {
    if (!others) {
        host_communicator_ = std::make_unique<collectives::HostCommunicator>(arena_, nodes);
        return;
    }
    transport_ = &others->transport;
    group_ = &others->group;
    hierarchical_communicator_ = std::make_unique<collectives::HierarchicalCommunicator>(
        arena_, nodes, others->group, others->transport, others->options);
    if (others->group.is_leader()) {
        leader_ = std::make_unique<Leader>(config, others->group, arena_, memory_, registrar_, enqueue_mutex_,
                                           others->transport);
    }
}

TensorEntry& ProcessSet::pin(std::string_view name) {
    const std::lock_guard lock(enqueue_mutex_);
    TensorEntry& entry = table_.entry(name);
    ++entry.pins;
    return entry;
}

void ProcessSet::unpin(TensorEntry& entry) {
    const std::lock_guard lock(enqueue_mutex_);
    --entry.pins;
    table_.forget_if_unused(entry);
}

/// `name` is what was to be started; empty for an operation without a name.
Status ProcessSet::check_open(std::string_view name) const {
    if (failed_.has_value()) [[unlikely]] {
        return about(name, *failed_);
    }
    if (shut_down_posted_) [[unlikely]] {
        return about(name, shut_down_here());
    }
    if (memory_.header().shut_down.load(std::memory_order_acquire) != 0) [[unlikely]] {
        return shut_down_status(name);
    }
    if (joining_) [[unlikely]] {
        return about(
            name, failure(ErrorCode::invalid_argument,
                          "rank {} is in join(), and can start nothing before all ranks have joined", own_job_rank()));
    }
    return {};
}

Status ProcessSet::shut_down_here() const noexcept try {
    return identity_.is_world() ? Status(ErrorCode::not_initialized, "rueda::shutdown() has been called on this rank")
                                : failure(ErrorCode::invalid_argument,
                                          "{} has been removed, or this rank has shut down", identity_.describe());
} catch (const std::bad_alloc&) {
    return no_memory_to_say_who_;
}

Status ProcessSet::shut_down_status(std::string_view name) const noexcept try {
    // The first rank that shut down is the cause; later ones may have left because of it.
    static_cast<void>(memory_.header().shut_down.load(std::memory_order_acquire));
    const std::int32_t rank = memory_.header().first_shut_down.load(std::memory_order_relaxed);
    return about(name, identity_.is_world()
                           ? failure(ErrorCode::aborted,
                                     "rank {} has shut down, so nothing can be done together any more"
                                     "; who has fewer batches calls join() before",
                                     rank)
                           : failure(ErrorCode::aborted, "{}: rank {} has removed it, or has shut down",
                                     identity_.describe(), rank));
} catch (const std::bad_alloc&) {
    return no_memory_to_say_who_;
}

// ---- ends -----------------------------------------------------------------------------------------------------------

void ProcessSet::complete(TensorEntry& entry, const Status& status) {
    Completion* completion = entry.completion;
    if (notes_memory()) [[unlikely]] {
        note_ended(entry);
    }
    if (status.is_ok()) {
        note_finished(entry);
    }
    // From here on the caller may submit the name again.
    entry.pending.store(false, std::memory_order_release);
    pending_.fetch_sub(1, std::memory_order_seq_cst);
    if (completion != nullptr) [[likely]] {  // no caller waits for an operation that this rank stands in for
        completion->complete_one(status);
    }
}

/// Completes an entry that may have lost its slot. Under the enqueue lock, so no other thread can submit the name in
/// between.
void ProcessSet::complete_and_forget(TensorEntry& entry, const Status& status) {
    if (entry.held != nullptr) [[unlikely]] {
        // A call announces the held members. A call that did not comes from a faulty rank, and the members were not
        // reduced.
        end_held(
            entry,
            !status.is_ok()
                ? status
                : failure(ErrorCode::internal,
                          "group '{}': the number of its members was called, but not as one that was announced in full",
                          entry.name));
    }
    complete(entry, status);
    table_.forget_if_unused(entry);
}

void ProcessSet::fail_all(const Status& reason) noexcept {
    const std::lock_guard lock(enqueue_mutex_);
    failed_ = reason;
    task_ = nullptr;
    fail_pending(reason);
}

/// The object itself stays, because TensorSlots and threads that come late still use it
/// (docs/design/0001-negotiation.md, "After the end").
void ProcessSet::release_memory() {
    const std::lock_guard lock(enqueue_mutex_);
    batch_.release();
    table_.release();
}

/// Under the enqueue lock.
void ProcessSet::fail_pending(const Status& reason) {
    end_join(reason);
    fail_deferred(reason);
    unposted_resolves_.clear();
    direct_.store(nullptr, std::memory_order_relaxed);
    table_.for_each([&](TensorEntry& entry) {
        entry.in_full = false;
        if (entry.pending.load(std::memory_order_relaxed)) {
            complete(entry, about(entry.name, reason));
        }
    });
    deferred_.store(false, std::memory_order_seq_cst);
}

void ProcessSet::fail_deferred(const Status& reason) {
    for (; !unposted_.empty(); unposted_.pop_front()) {
        const Status status = about(unposted_.front().name, reason);
        end_held(unposted_.front(), status);
        complete(unposted_.front(), status);
    }
    tell_deferred();
    for (const Waiting& waiting : unnamed_waiting_) {
        pending_.fetch_sub(1, std::memory_order_seq_cst);
        waiting.completion->complete_one(reason);
    }
    unnamed_waiting_.clear();
}

/// Without memory for the name of the set, the text alone.
void ProcessSet::raise(ErrorCode code, std::string_view text) noexcept {
    try {
        arena_->blocks().abort().raise(code, title().append(text));
    } catch (const std::bad_alloc&) {
        arena_->blocks().abort().raise(code, text);
    }
    waking_.ring_all();
}

std::vector<ProcessSet::PendingTensor> ProcessSet::pending_tensors() {
    const std::lock_guard lock(enqueue_mutex_);
    std::vector<PendingTensor> tensors;
    table_.for_each([&](const TensorEntry& entry) {
        if (entry.pending.load(std::memory_order_acquire)) {
            tensors.push_back({entry.name, entry.submitted_ns});
        }
    });
    return tensors;
}

std::vector<std::int32_t> ProcessSet::ranks_elsewhere() const {
    std::vector<std::int32_t> ranks;
    for (std::size_t member = 0; group_ != nullptr && member < identity_.ranks.size(); ++member) {
        if (group_->host_of[member] != group_->host_index) {
            ranks.push_back(identity_.ranks[member]);
        }
    }
    return ranks;
}

/// A completion that this rank's caller holds: it is compared here, and not looked into.
std::vector<AwaitedTensor> ProcessSet::awaited_by(const Completion& completion) {
    const std::lock_guard lock(enqueue_mutex_);
    std::vector<AwaitedTensor> awaited;
    if (join_ == &completion) {
        awaited.push_back({.name = "join()"});
    }
    table_.for_each([&](const TensorEntry& entry) {
        // Acquire: the partner is the release in complete(). A member of a group that is held back is announced when
        // the group's number has been called, and the number is pending with the same completion.
        if (!entry.pending.load(std::memory_order_acquire) || entry.completion != &completion || entry.is_held) {
            return;
        }
        const std::uint64_t call = entry.name.empty() ? call_of_unnamed(entry.slot, entry.generation) : 0;
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
                               .waits_behind = call_of_unnamed(before.slot, before.generation)});
        }
    }
    return awaited;
}

}  // namespace rueda::core
