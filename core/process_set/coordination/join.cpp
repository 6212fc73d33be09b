// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/coordination/join.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/recorder/recorder_writer.hpp"
#include "base/system/clock.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/impossible.hpp"
#include "core/negotiation/joining.hpp"
#include "core/process_set/coordination/verification.hpp"
#include "rueda/types.hpp"

namespace rueda::core {

using collectives::Operation;

namespace {

/// Returns `status` with "join: " before its message. If there is no memory for the text, returns `status` unchanged.
Status about_join(const Status& status) noexcept {
    try {
        return status.is_ok() ? status : failure(status.code(), "join: {}", status.message());
    } catch (const std::bad_alloc&) {
        return status;
    }
}

}  // namespace

Status Join::announce(Completion& completion, bool counted) {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    RUEDA_RETURN_IF_FAILED(announcer_.check_open(""));
    announcer_.set_joining(true);
    is_counted_ = counted;
    has_joined_ = false;
    has_settled_ = false;
    completion_ = &completion;
    looked_at_ = kNeverLooked;
    ends_.count_one();
    joins_soon_.store(true, std::memory_order_seq_cst);
    // a release store: a thread that reads `true` in is_on() also sees the fields above
    joins_.store(true, std::memory_order_release);
    if (may_join()) {
        become_joined();
    }
    // The thread that drives this rank's progress may be asleep, so it is woken here. After this function, the caller
    // must call Engine::attend().
    waking_.wake(view_.rank);
    return {};
}

void Join::note_site(const char* file, std::int32_t line) const {
    if (view_.extent().call_sites != 0) {
        view_.memory.join_site(view_.rank).write(site_text(file, line));
    }
}

bool Join::turn() {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    if (completion_ == nullptr) {
        return false;
    }
    if (!has_joined_) {
        if (!may_join()) {
            return false;
        }
        become_joined();
    }
    // This rank looks for announcements of other ranks when their count has changed, and also when it has read more of
    // the log. When it last looked, it may have been unable to announce an operation, because an earlier operation was
    // still pending. That earlier operation may have ended since then.
    const std::uint64_t position = cursor_.position();
    const std::uint64_t announced = view_.memory.header().announced.load(std::memory_order_seq_cst);
    bool moved = false;
    if (position != looked_at_ || announced != announced_seen_) {
        // Another member may have announced an operation directly before it saw that this rank joined. In this case it
        // did not notify this rank. So when this rank looks for announcements for the first time, it also reads all
        // stamps (the words that publish announcements).
        moved = stand_in_for_new(/*look_at_places=*/looked_at_ == kNeverLooked);
        looked_at_ = position;
        announced_seen_ = announced;
        joins_soon_.store(false, std::memory_order_seq_cst);
    }
    return settle() || moved;
}

/// Whether this rank may join now. There are two conditions. All operations that it has submitted must be announced. An
/// operation that it has announced directly must have ended, because other members may complete it from the direct
/// announcements alone.
bool Join::may_join() const { return announcer_.has_announced_all() && !direct_.any(); }

void Join::become_joined() {
    view_.memory.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
    const std::uint64_t joined = set_joined(view_.memory, view_.rank);
    has_joined_ = true;
    joined_members_.wake(joined);  // the other ranks may be waiting for this rank as the last one to join
}

bool Join::is_away() const { return core::is_away(view_.memory, view_.rank); }

/// Posts a *settle* request if all members have joined and no operation is pending on this rank. The request asks the
/// registrar to end the join. No rank ends the join too early: as long as an operation that this rank has started is
/// pending here, it is pending on the other ranks too, because they have joined and announce it.
bool Join::settle() {
    if (has_settled_ ||
        view_.memory.header().joined.load(std::memory_order_acquire) != all_members(view_.extent().members) ||
        !has_nothing_pending()) {
        return false;
    }
    // If the mailbox is full, a later turn tries again. When the members have read more of the log, the mailbox has
    // room again.
    has_settled_ = announcer_.try_post_settle();
    return has_settled_;
}

bool Join::has_nothing_pending() {
    bool nothing = true;
    announcer_.table().for_each(
        [&](const TensorEntry& entry) { nothing = nothing && !entry.pending.load(std::memory_order_acquire); });
    return nothing && announcer_.has_announced_all();
}

/// Announces the operations that other ranks have announced and this rank has not. Returns true if it announced an
/// operation.
bool Join::stand_in_for_new(bool look_at_places) {
    bool any = stand_in_for_unnamed();
    const std::uint32_t high =
        std::min(view_.memory.header().high_slot.load(std::memory_order_acquire), view_.memory.extent().slots);
    for (std::uint32_t slot = view_.extent().unnamed_slots; slot < high; ++slot) {
        any = stand_in_for_slot(slot, look_at_places) || any;
    }
    return stand_in_for_direct() || any;
}

/// Announces the operations without a name that other ranks have announced. Such operations match by the order of the
/// calls, so this rank must announce each of them.
bool Join::stand_in_for_unnamed() {
    bool any = false;
    while (!announcer_.next_unnamed().pending.load(std::memory_order_acquire) &&
           was_announced(announcer_.next_unnamed(), /*look_at_places=*/false) && is_away()) {
        stand_in(announcer_.take_next_unnamed());
        any = true;
    }
    return any;
}

bool Join::stand_in_for_slot(std::uint32_t slot, bool look_at_places) {
    TensorEntry* entry = announcer_.table().at_slot(slot);
    if (entry == nullptr) {
        return stand_in_for_new_name(slot);
    }
    if (entry->pending.load(std::memory_order_acquire) || !was_announced(*entry, look_at_places) || !is_away() ||
        (inspects_ && will_announce(entry->name))) {
        return false;
    }
    stand_in(*entry);
    return true;
}

/// Call this if other ranks may have announced an operation in `slot` under a new name. If this rank does not know the
/// name, this function announces the operation for this rank, without data (it stands in). If this rank knows the name
/// in another slot, or has announced the operation by name, the function does nothing. This rank must then first read
/// the log entries about the name.
bool Join::stand_in_for_new_name(std::uint32_t slot) {
    const auto& label = view_.memory.label(slot);
    const auto state = label.state();
    if (state.state != SlotState::first_sight) {
        return false;
    }
    const std::string name = label.name(state);
    if (name.empty()) {
        // the slot has another name by now; the rank that announced that name notifies the joined members
        return false;
    }
    const TensorEntry* known = announcer_.table().find(name);
    if (known != nullptr &&
        (known->slot != kNoSlot || known->in_full || known->pending.load(std::memory_order_acquire))) {
        return false;
    }
    // The slot stays in the state `first_sight` until this rank has announced the name, or until a shutdown ends the
    // operation.
    if (!is_away() || (inspects_ && will_announce(name))) {
        return false;
    }
    stand_in(announcer_.table().entry(name));
    return true;
}

/// Announces the operations that other members have announced directly. Each member has at most one direct announcement
/// at a time; the member's `Cursor::direct` holds the slot plus 1.
bool Join::stand_in_for_direct() {
    bool any = false;
    for (std::uint32_t member = 0; member < view_.extent().members; ++member) {
        const std::uint32_t slot = view_.memory.cursor(member).direct.load(std::memory_order_acquire);
        TensorEntry* entry = member != view_.rank && slot != 0 ? announcer_.table().at_slot(slot - 1) : nullptr;
        if (entry != nullptr && !entry->pending.load(std::memory_order_acquire) && was_announced_by(*entry, member) &&
            is_away()) {
            stand_in(*entry);
            any = true;
        }
    }
    return any;
}

/// Whether another rank has announced the next operation in the slot of `entry`. On this rank, the slot must belong to
/// `entry`.
bool Join::was_announced(const TensorEntry& entry, bool look_at_places) const {
    if (has_new_arrivals(view_.memory, entry.slot, entry.counted)) {
        return true;
    }
    for (std::uint32_t member = 0; look_at_places && member < view_.extent().members; ++member) {
        if (member != view_.rank && was_announced_by(entry, member)) {
            return true;
        }
    }
    return false;
}

bool Join::was_announced_by(const TensorEntry& entry, std::uint32_t member) const {
    return has_stamped(view_.memory, entry.slot, member, entry.generation + 1);
}

/// Whether this rank will announce `name` with a finding of its own. `name` may be an operation in which the ranks
/// compare what they found when they checked another operation. The result is true if a caller of this rank started the
/// checked operation and it is still pending. This rank must then not announce the comparison without a finding.
bool Join::will_announce(std::string_view name) {
    bool found = false;
    announcer_.table().for_each([&](const TensorEntry& entry) {
        found = found || (entry.pending.load(std::memory_order_acquire) && !entry.stands_in &&
                          Verification::name_of_check_of(entry) == name);
    });
    return found;
}

/// Announces an operation without knowing its metadata. take_called() sets the metadata when the operation is called.
void Join::stand_in(TensorEntry& entry, bool asked_for) {
    entry.ask_for({});
    // without this flag, announce() would send the empty metadata as changed metadata
    entry.known_to_agree = true;
    entry.completion = nullptr;
    entry.stands_in = true;
    entry.recorded = base::RecorderWriter::kNone;
    entry.is_counted = is_counted_;
    entry.asked_for = asked_for;
    entry.submitted_ns = base::coarse_monotonic_ns();
    entry.pending.store(true, std::memory_order_relaxed);
    ends_.count_one();
    announcer_.announce(entry, Urgency::background);
}

/// Copies the metadata of a member that has not joined. All members that have not joined agree, because the log has
/// called the operation. If all members of this host have joined, the leader has stored the metadata in the slot's
/// record.
Status Join::take_called(TensorEntry& entry, std::uint32_t slot, std::uint64_t generation) const {
    std::uint32_t member = 0;
    while (member < view_.extent().members && announced_.stood_in(slot, member, generation)) {
        ++member;
    }
    const Metadata metadata = member < view_.extent().members ? Registrar<Announcer::Atomics>::announced_metadata(
                                                                    view_.memory, slot, member, generation)
                                                              : copy_once(view_.memory.record(slot).metadata);
    const auto operation = static_cast<Operation>(metadata.operation);
    // the number of elements, as in Request::count
    std::uint64_t count = operation == Operation::barrier || operation == Operation::group ? 0 : 1;
    bool usable = is_plausible(metadata) && is_possible(metadata) && collectives::goes_on_without_joined(operation);
    // The first dimension may differ between the ranks, also in the operation that announces a group's number of
    // members. So it is left out of `count`.
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

void Join::stand_in_for_name(std::string_view name) {
    view_.memory.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
    TensorEntry& entry = announcer_.table().entry(name);
    if (!entry.pending.load(std::memory_order_acquire)) {
        stand_in(entry, /*asked_for=*/true);
    }
}

void Join::stand_in_for_calls(std::uint64_t last) {
    view_.memory.header().announced_ns.store(base::coarse_monotonic_ns(), std::memory_order_relaxed);
    while (announcer_.unnamed_calls() <= last) {
        if (announcer_.next_unnamed().pending.load(std::memory_order_acquire)) {
            ends_.raise(ErrorCode::internal,
                        fmt::format("the log has call {} without a name, for which other hosts wait, and "
                                    "rank {} waits for call {}",
                                    last, view_.own_job_rank(), announcer_.unnamed_calls()));
            return;
        }
        stand_in(announcer_.take_next_unnamed(), /*asked_for=*/true);
    }
}

void Join::end_of_all(std::uint32_t last) {
    if (completion_ == nullptr || last >= view_.set_size) {
        ends_.raise(ErrorCode::internal, fmt::format("the log says that all ranks have joined, member {} of {} as the "
                                                     "last, and rank {} has not",
                                                     last, view_.set_size, view_.own_job_rank()));
        return;
    }
    if (view_.identity.is_world()) {
        completion_->joined_last = view_.identity.ranks[last];
    }
    end({});
}

void Join::end(const Status& status) {
    announcer_.set_joining(false);
    joins_.store(false, std::memory_order_relaxed);
    joins_soon_.store(false, std::memory_order_relaxed);
    if (Completion* completion = std::exchange(completion_, nullptr)) {
        ends_.uncount_one();
        completion->complete_one(about_join(status));
    }
}

}  // namespace rueda::core
