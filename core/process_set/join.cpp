// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Ranks that have joined (docs/design/0005-join.md): they announce what the others announce, but contribute nothing.
#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/system/clock.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/impossible.hpp"
#include "core/negotiation/joining.hpp"
#include "core/process_set/process_set.hpp"
#include "rueda/types.hpp"

namespace rueda::core {

using collectives::Operation;

namespace {

/// How a join ended; a failure without its name, where there is no memory for that.
Status about_join(const Status& status) noexcept {
    try {
        return status.is_ok() ? status : failure(status.code(), "join: {}", status.message());
    } catch (const std::bad_alloc&) {
        return status;
    }
}

}  // namespace

// ---- those who have not joined --------------------------------------------------------------------------------------

/// Tells joined members that this rank has announced something of its own.
void ProcessSet::tell_joined(const TensorEntry& entry) {
    const std::uint64_t joined = joined_to_tell(memory_);
    if (joined != 0 && !entry.stands_in) [[unlikely]] {
        wake_joined(joined);
    }
}

/// Tells joined members of what the registrar did for this rank or for others.
void ProcessSet::tell_joined_of_posts() {
    if (const std::uint64_t joined = joined_to_tell_of_posts(memory_); joined != 0) {
        wake_joined(joined);
    }
}

void ProcessSet::wake_joined(std::uint64_t joined) {
    memory_.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
    // Partner: turn_join(), which a sleeper calls after it has said that it sleeps.
    memory_.header().announced.fetch_add(1, std::memory_order_seq_cst);
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (member != rank_ && (joined >> member & 1) != 0) {
            waking_.wake(member);
        }
    }
}

// ---- joining --------------------------------------------------------------------------------------------------------

Status ProcessSet::announce_join(Completion& completion, bool counted) {
    const std::lock_guard lock(enqueue_mutex_);
    RUEDA_RETURN_IF_FAILED(check_open(""));
    joining_ = true;
    join_is_counted_ = counted;
    has_joined_ = false;
    has_settled_ = false;
    join_ = &completion;
    looked_at_ = kNeverLooked;
    pending_.fetch_add(1, std::memory_order_seq_cst);
    joins_soon_.store(true, std::memory_order_seq_cst);
    joins_.store(true, std::memory_order_release);  // partner: take_turn()
    if (may_join()) {
        become_joined();
    }
    waking_.wake(rank_);  // the thread that drives this rank's progress may be asleep; Engine::attend() does the rest
    return {};
}

void ProcessSet::note_join_site(const char* file, std::int32_t line) {
    if (extent_.call_sites != 0) {
        memory_.join_site(rank_).write(site_text(file, line));
    }
}

/// Returns true if something advanced.
bool ProcessSet::turn_join() {
    const std::lock_guard lock(enqueue_mutex_);
    if (!joining_) {
        return false;
    }
    if (!has_joined_) {
        if (!may_join()) {
            return false;
        }
        become_joined();
    }
    // Operations that have ended since the last look make room for others that were announced before.
    const std::uint64_t position = next_.load(std::memory_order_relaxed);
    const std::uint64_t announced = memory_.header().announced.load(std::memory_order_seq_cst);
    bool moved = false;
    if (position != looked_at_ || announced != announced_seen_) {
        // The first look also finds direct announcements of members that did not see this rank join.
        moved = stand_in_for_new(/*look_at_places=*/looked_at_ == kNeverLooked);
        looked_at_ = position;
        announced_seen_ = announced;
        joins_soon_.store(false, std::memory_order_seq_cst);
    }
    return settle() || moved;
}

/// Whether this rank may join now: everything that it has submitted must be announced. An operation that another thread
/// announced directly must end first, because the other members may have seen it as direct.
bool ProcessSet::may_join() const {
    return unposted_.empty() && unposted_resolves_.empty() && unnamed_waiting_.empty() &&
           direct_.load(std::memory_order_seq_cst) == nullptr;
}

void ProcessSet::become_joined() {
    memory_.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
    const std::uint64_t joined = set_joined(memory_, rank_);
    has_joined_ = true;
    wake_joined(joined);  // the others wait for the last rank to join
}

bool ProcessSet::is_away() const { return core::is_away(memory_, rank_); }

/// Says that all members have joined and nothing is pending on this rank. A rank with an operation of its own pending
/// does not say so. What this rank stands in for is also pending on such a rank.
bool ProcessSet::settle() {
    if (has_settled_ || memory_.header().joined.load(std::memory_order_acquire) != all_members(extent_.members) ||
        !has_nothing_pending()) {
        return false;
    }
    MailboxRecord<Atomics>* record = next_record();
    if (record == nullptr) {
        return false;  // another turn tries again; the mailbox is emptied as the log is read
    }
    has_settled_ = true;
    record->set_kind(RequestKind::settle);
    finish_post(registrar_.post());
    return true;
}

bool ProcessSet::has_nothing_pending() {
    bool nothing = true;
    table_.for_each(
        [&](const TensorEntry& entry) { nothing = nothing && !entry.pending.load(std::memory_order_acquire); });
    return nothing && unnamed_waiting_.empty();
}

// ---- standing in ----------------------------------------------------------------------------------------------------

/// Announces what others have announced and this rank has not. Returns true if there was something.
bool ProcessSet::stand_in_for_new(bool look_at_places) {
    bool any = stand_in_for_unnamed();
    const std::uint32_t high =
        std::min(memory_.header().high_slot.load(std::memory_order_acquire), memory_.extent().slots);
    for (std::uint32_t slot = extent_.unnamed_slots; slot < high; ++slot) {
        any = stand_in_for_slot(slot, look_at_places) || any;
    }
    return stand_in_for_direct() || any;
}

/// Operations without names match by the order of the calls, so this rank makes these calls as well.
bool ProcessSet::stand_in_for_unnamed() {
    bool any = false;
    while (!next_unnamed().pending.load(std::memory_order_acquire) &&
           was_announced(next_unnamed(), /*look_at_places=*/false) && is_away()) {
        TensorEntry& entry = next_unnamed();
        entry.generation = unnamed_calls_++ / extent_.unnamed_slots;
        stand_in(entry);
        any = true;
    }
    return any;
}

bool ProcessSet::stand_in_for_slot(std::uint32_t slot, bool look_at_places) {
    TensorEntry* entry = table_.at_slot(slot);
    if (entry == nullptr) {
        return stand_in_for_new_name(slot);
    }
    if (entry->pending.load(std::memory_order_acquire) || !was_announced(*entry, look_at_places) || !is_away() ||
        (checks_ && will_announce(entry->name))) {
        return false;
    }
    stand_in(*entry);
    return true;
}

/// Handles a name for which this rank has no slot. If this rank has another slot for the name, or its own announcement
/// of it, the log has further entries about it that come first.
bool ProcessSet::stand_in_for_new_name(std::uint32_t slot) {
    const auto& label = memory_.label(slot);
    const auto state = label.state();
    if (state.state != SlotState::first_sight) {
        return false;
    }
    const std::string name = label.name(state);
    if (name.empty()) {
        return false;  // the slot has moved on, and the rank that did this tells the joined members
    }
    const TensorEntry* known = table_.find(name);
    if (known != nullptr &&
        (known->slot != kNoSlot || known->in_full || known->pending.load(std::memory_order_acquire))) {
        return false;
    }
    // The slot stays in this state until this rank has announced the name, or until a shutdown fails it.
    if (!is_away() || (checks_ && will_announce(name))) {
        return false;
    }
    stand_in(table_.entry(name));
    return true;
}

/// Each member has at most one direct announcement at a time, in the slot that its cursor names.
bool ProcessSet::stand_in_for_direct() {
    bool any = false;
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        const std::uint32_t slot = memory_.cursor(member).direct.load(std::memory_order_acquire);
        TensorEntry* entry = member != rank_ && slot != 0 ? table_.at_slot(slot - 1) : nullptr;
        if (entry != nullptr && !entry->pending.load(std::memory_order_acquire) && was_announced_by(*entry, member) &&
            is_away()) {
            stand_in(*entry);
            any = true;
        }
    }
    return any;
}

/// Whether others announced the generation after the last one that this rank announced. The slot must be bound here.
bool ProcessSet::was_announced(const TensorEntry& entry, bool look_at_places) const {
    if (has_new_arrivals(memory_, entry.slot, entry.counted)) {
        return true;
    }
    for (std::uint32_t member = 0; look_at_places && member < extent_.members; ++member) {
        if (member != rank_ && was_announced_by(entry, member)) {
            return true;
        }
    }
    return false;
}

bool ProcessSet::was_announced_by(const TensorEntry& entry, std::uint32_t member) const {
    return has_stamped(memory_, entry.slot, member, entry.generation + 1);
}

/// Announces an operation without knowing what it is. This rank learns that when the operation is called:
/// take_called().
void ProcessSet::stand_in(TensorEntry& entry, bool asked_for) {
    entry.ask_for({});
    entry.known_to_agree = true;  // otherwise it would be announced as a change of metadata
    entry.completion = nullptr;
    entry.stands_in = true;
    entry.is_counted = join_is_counted_;
    entry.asked_for = asked_for;
    entry.submitted_ns = base::coarse_monotonic_ns();
    entry.pending.store(true, std::memory_order_relaxed);
    pending_.fetch_add(1, std::memory_order_seq_cst);
    announce(entry, Urgency::background);
}

// ---- what is called -------------------------------------------------------------------------------------------------

/// Takes over the metadata of an operation that this rank stands in for. All other members mean the same, or it would
/// not have been called. If no rank of this host takes part, the leader has written the metadata down.
Status ProcessSet::take_called(TensorEntry& entry, std::uint32_t slot, std::uint64_t generation) const {
    std::uint32_t member = 0;
    while (member < extent_.members && announced_.stood_in(slot, member, generation)) {
        ++member;
    }
    const Metadata metadata = member < extent_.members
                                  ? Registrar<Atomics>::announced_metadata(memory_, slot, member, generation)
                                  : copy_once(memory_.record(slot).metadata);
    const auto operation = static_cast<Operation>(metadata.operation);
    // as the request holds it
    std::uint64_t count = operation == Operation::barrier || operation == Operation::group ? 0 : 1;
    bool usable = is_plausible(metadata) && is_possible(metadata) && collectives::goes_on_without_joined(operation);
    // A group's first dimension is its number of members, which may differ between ranks.
    const int first = usable && collectives::may_differ_in_rows(operation) ? 1 : 0;
    if (usable && count > 0) {
        const std::span extents(metadata.shape, metadata.ndim);
        const auto counted = detail::count_of_elements(extents.subspan(static_cast<std::size_t>(first)));
        usable = counted.has_value();
        count = counted.value_or(0);
    }
    if (!usable) {
        return failure(
            ErrorCode::internal,
            "tensor '{}': the log calls it, but what the ranks that have not joined announced cannot be called",
            entry.name);
    }
    entry.request.metadata = metadata;
    entry.request.count = count;
    return {};
}

/// Under the enqueue lock. The text is the same on every rank. On several hosts, the root has written it.
void ProcessSet::handle_lacks_joined(std::uint32_t slot, std::uint32_t attachment) {
    if (attachment != 0) {
        handle_disagreement(slot, attachment, ErrorCode::invalid_argument);
        return;
    }
    TensorEntry* entry = entry_of_slot(slot);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed)) {
        raise(ErrorCode::internal, fmt::format("the log says that the operation in slot {} needs ranks that have "
                                               "joined, but rank {} has nothing pending in it",
                                               slot, own_job_rank()));
        return;
    }
    const std::uint64_t generation = entry->slot == kNoSlot ? 0 : entry->generation;
    std::vector<std::int32_t> joined;
    Metadata metadata;
    for (std::uint32_t member = 0; member < extent_.members; ++member) {
        if (announced_.stood_in(slot, member, generation)) {
            joined.push_back(identity_.ranks[member]);
        } else {
            metadata = Registrar<Atomics>::announced_metadata(memory_, slot, member, generation);
        }
    }
    const std::uint64_t call = entry->name.empty() ? call_of_unnamed(slot, generation) : 0;
    end_disagreed(*entry, slot, lacks_joined(entry->name, static_cast<Operation>(metadata.operation), joined, call));
}

/// Handles a log entry that names an operation of other hosts, while all ranks of this host have joined. Every rank of
/// the host reads the entry at the same position of the log. If the operation is already pending on a rank, this rank
/// has announced it: before it joined, or because another rank of its host did.
void ProcessSet::handle_wanted(std::uint32_t slot, std::uint32_t attachment) {
    if (attachment == 0 || attachment > extent_.attachments || !has_joined_) {
        raise(ErrorCode::internal,
              fmt::format(
                  "the log has an operation that other hosts wait for, with attachment {}, and rank {} has{} joined",
                  attachment, own_job_rank(), has_joined_ ? "" : " not"));
        return;
    }
    memory_.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
    if (slot != kNoSlot) {
        std::uint64_t last = 0;
        std::memcpy(&last, memory_.attachment(attachment - 1), sizeof(last));
        stand_in_for_calls(last);
        return;
    }
    TensorEntry& entry = table_.entry(text_of_attachment(attachment));
    if (!entry.pending.load(std::memory_order_acquire)) {
        stand_in(entry, /*asked_for=*/true);
    }
}

/// A rank that has made call `last` has also made all earlier calls.
void ProcessSet::stand_in_for_calls(std::uint64_t last) {
    while (unnamed_calls_ <= last) {
        if (next_unnamed().pending.load(std::memory_order_acquire)) {
            raise(ErrorCode::internal,
                  fmt::format("the log has call {} without a name, for which other hosts wait, and "
                              "rank {} waits for call {}",
                              last, own_job_rank(), unnamed_calls_));
            return;
        }
        TensorEntry& entry = next_unnamed();
        entry.generation = unnamed_calls_++ / extent_.unnamed_slots;
        stand_in(entry, /*asked_for=*/true);
    }
}

void ProcessSet::handle_all_joined(std::uint32_t last) {
    if (join_ == nullptr || last >= set_size_) {
        raise(ErrorCode::internal, fmt::format("the log says that all ranks have joined, member {} of {} as the last, "
                                               "and rank {} has not",
                                               last, set_size_, own_job_rank()));
        return;
    }
    if (identity_.is_world()) {
        join_->joined_last = identity_.ranks[last];
    }
    end_join({});
}

/// Under the enqueue lock. Does nothing if no join is in progress.
void ProcessSet::end_join(const Status& status) {
    joining_ = false;
    joins_.store(false, std::memory_order_relaxed);
    joins_soon_.store(false, std::memory_order_relaxed);
    if (Completion* completion = std::exchange(join_, nullptr)) {
        pending_.fetch_sub(1, std::memory_order_seq_cst);
        completion->complete_one(about_join(status));
    }
}

}  // namespace rueda::core
