// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/coordination/log_answers.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/diagnostics/pending_tensors.hpp"
#include "core/negotiation/claims.hpp"
#include "core/negotiation/foreign.hpp"
#include "core/negotiation/impossible.hpp"

namespace rueda::core {

namespace {

/// Whether all ranks of the host must handle an entry of this kind at once. If so, sleeping ranks must be woken.
bool ends_for_all(EntryKind kind) {
    return kind == EntryKind::mismatch || kind == EntryKind::disagreed || kind == EntryKind::failed ||
           kind == EntryKind::lacks_joined || kind == EntryKind::all_joined || kind == EntryKind::wanted;
}

}  // namespace

bool LogAnswers::take(const Entry& entry) {
    const std::uint64_t position = cursor_.position();
    if (ends_for_all(entry.kind)) {
        waking_.wake_others();
    }
    if (entry.kind == EntryKind::retire && must_await_retirement(position, entry.slot)) {
        return false;
    }
    if (entry.kind == EntryKind::closed && direct_.any()) {
        // The last announcement of this operation may come from a rank that announced it directly and then shut down.
        announcer_.turn_direct();
    }
    const std::lock_guard lock(announcer_.enqueue_mutex());
    if (!follow(entry)) {
        return false;
    }
    if (ends_announcements(entry.kind)) {
        pass_and_tell(position);
    } else {
        cursor_.advance_to(position + 1);
    }
    return true;
}

/// The functions from follow() on run under the enqueue lock, except must_await_retirement().
bool LogAnswers::follow(const Entry& entry) {
    switch (entry.kind) {
        case EntryKind::mismatch:
            follow_mismatch(entry.slot);
            return true;
        case EntryKind::disagreed:
            follow_disagreement(entry.slot, entry.attachment, static_cast<ErrorCode>(entry.rank));
            return true;
        case EntryKind::failed:
            follow_failure(entry.slot);
            return true;
        case EntryKind::retire:
            return follow_retirement(entry.slot);
        case EntryKind::lacks_joined:
            follow_lack_of_joined(entry.slot, entry.attachment);
            return true;
        case EntryKind::wanted:
            follow_wanted(entry.slot, entry.attachment);
            return true;
        case EntryKind::all_joined:
            join_.end_of_all(entry.rank);
            return true;
        case EntryKind::closing:
            join_.end(reasons_.shut_down(""));
            direct_.note_closing(cursor_.position());
            return true;
        case EntryKind::refused:
        case EntryKind::exhausted:
            follow_refusal(entry);
            return true;
        case EntryKind::closed:
            // Ends the join and the operations that are not posted yet. All other operations have ended already.
            join_.end(reasons_.shut_down(""));
            announcer_.fail_pending(reasons_.shut_down(""));
            closed_.store(true, std::memory_order_release);
            return true;
        default:
            ends_.raise(ErrorCode::internal, fmt::format("the log has an entry of unknown kind {} at {}",
                                                         static_cast<std::uint32_t>(entry.kind), cursor_.position()));
            return false;
    }
}

/// The log entry at `position` retires `slot`. Returns true if this rank must wait before it reads further entries,
/// because it has announced an operation directly in `slot`. There are two cases. If all members announce this
/// operation directly, all of them complete it. But a member may read the entry first; it then announces the operation
/// by name. This rank waits until every member has either announced the operation or read the entry, because only then
/// it knows the case. Before that, the slot must not be reused.
bool LogAnswers::must_await_retirement(std::uint64_t position, std::uint32_t slot) {
    if (!direct_.uses(slot) || announcer_.turn_direct(position) != DirectState::waiting) {
        return false;
    }
    if (rung_for_retirement_ != position) {
        rung_for_retirement_ = position;
        // the other members may be asleep without a pending operation, so that nothing else wakes them
        waking_.ring_behind(position + 1);
    }
    return true;
}

bool LogAnswers::follow_retirement(std::uint32_t slot) {
    if (direct_.uses(slot)) {
        return false;  // since the check in must_await_retirement(), another thread has announced an operation directly
    }
    ends_.forget_finished(slot);
    if (TensorEntry* entry = announcer_.table().at_slot(slot); entry != nullptr) {
        announcer_.table().unbind(*entry);
    }
    return true;
}

/// Moves the cursor past the entry at `position`. After this entry, this rank announces nothing more, either in one
/// slot or in all slots. Wakes the members that wait for an announcement that this rank will therefore not make. If
/// this rank has a direct announcement, also wakes the members that have not read this entry. What these members do
/// next decides whether the directly announced operation can be completed directly.
void LogAnswers::pass_and_tell(std::uint64_t position) {
    cursor_.advance_behind_end(position + 1);
    waking_.announced_more(Urgency::background);
    if (direct_.any()) {
        waking_.ring_behind(position + 1);
    }
}

/// Returns the entry of the operation that is pending in `slot`. If nothing is pending, ends the job and returns null.
/// `what` names the reported event in the error.
TensorEntry* LogAnswers::pending_in(std::uint32_t slot, std::string_view what) {
    TensorEntry* const entry = announcer_.entry_of_slot(slot);
    if (entry != nullptr && entry->pending.load(std::memory_order_relaxed)) {
        return entry;
    }
    ends_.raise(ErrorCode::internal, fmt::format("the log reports {} in slot {}, where rank {} has nothing pending",
                                                 what, slot, view_.own_job_rank()));
    return nullptr;
}

void LogAnswers::follow_mismatch(std::uint32_t slot) {
    TensorEntry* const entry = pending_in(slot, "a mismatch");
    if (entry == nullptr) {
        return;
    }
    const std::uint64_t generation = entry->slot == kNoSlot ? 0 : entry->generation;
    std::vector<MetadataOfRanks> by_rank;
    if (!read_announced(slot, generation, by_rank)) {
        return;
    }
    const std::uint64_t call = entry->name.empty() ? view_.call_of_unnamed(slot, generation) : 0;
    const Groups::RanksOfCount groups = groups_among(slot, generation, by_rank);
    Status status = refusal_or_mismatch(entry->name, call, std::move(by_rank));
    // The error of a refused operation gets no call sites (source lines of the calls), because its text must be the
    // same on all ranks.
    if (status.code() == ErrorCode::mismatch) {
        status = {status.code(), status.message() + announced_.called_from(slot, generation)};
    }
    end_disagreed(*entry, slot, status, groups);
}

/// Reads the metadata that each member has announced, except members that have joined. If no correct rank can have
/// announced such metadata, ends the job and returns false.
bool LogAnswers::read_announced(std::uint32_t slot, std::uint64_t generation, std::vector<MetadataOfRanks>& by_rank) {
    for (std::uint32_t member = 0; member < view_.extent().members; ++member) {
        if (announced_.stood_in(slot, member, generation)) {
            continue;
        }
        by_rank.push_back({Registrar<Atomics>::announced_metadata(view_.memory, slot, member, generation),
                           {static_cast<std::int32_t>(member)}});
        if (!is_plausible(by_rank.back().metadata)) {
            ends_.raise(ErrorCode::internal, fmt::format("rank {} announced metadata that no working rank writes",
                                                         view_.job_rank_of(member)));
            return false;
        }
    }
    if (by_rank.empty()) {
        ends_.raise(ErrorCode::internal,
                    fmt::format("the log reports a mismatch in slot {}, in which all ranks have joined", slot));
    }
    return !by_rank.empty();
}

/// Some ranks may have started a group under a name that other ranks use for another operation. Returns the sizes of
/// these groups. Without them, Groups::end() could not end the members of the groups.
Groups::RanksOfCount LogAnswers::groups_among(std::uint32_t slot, std::uint64_t generation,
                                              std::span<const MetadataOfRanks> by_rank) const {
    Groups::RanksOfCount groups;
    for (const MetadataOfRanks& one : by_rank) {
        const auto member = static_cast<std::uint32_t>(one.ranks.front());
        const std::int64_t count = copy_once(view_.memory.place(slot, member, generation).first_dimension);
        if (is_size_of_group(one.metadata) && count > 0) {
            groups[count].push_back(view_.job_rank_of(member));
        }
    }
    return groups;
}

/// Returns the error for an operation that was not called. If the members' metadata differ, the error is a mismatch. If
/// the metadata agree, the operation is impossible for all members, and the error is a refusal that says why. `by_rank`
/// must not be empty.
Status LogAnswers::refusal_or_mismatch(std::string_view name, std::uint64_t call,
                                       std::vector<MetadataOfRanks> by_rank) const {
    const std::span<const int> ranks = view_.identity.ranks;
    const Metadata& first = by_rank.front().metadata;
    const bool all_agree = std::all_of(by_rank.begin(), by_rank.end(),
                                       [&](const MetadataOfRanks& one) { return agree(one.metadata, first); });
    if (all_agree && !is_possible(first)) {
        return refusal_of(name, call, first, ranks);
    }
    return call != 0 ? mismatch_of_unnamed(call, std::move(by_rank), ranks)
                     : mismatch_of(name, std::move(by_rank), ranks);
}

/// Ends an operation that the root of the tree refused. The log entry refers to the attachment, which holds the root's
/// text.
void LogAnswers::follow_disagreement(std::uint32_t slot, std::uint32_t attachment, ErrorCode code) {
    TensorEntry* entry = announcer_.entry_of_slot(slot);
    if (entry == nullptr || !entry->pending.load(std::memory_order_relaxed) || attachment == 0 ||
        attachment > view_.extent().attachments || (code != ErrorCode::mismatch && !is_refusal(code))) {
        ends_.raise(ErrorCode::internal,
                    fmt::format("the log reports a disagreement in slot {}, with attachment {}, where "
                                "rank {} has nothing pending",
                                slot, attachment, view_.own_job_rank()));
        return;
    }
    std::string text = text_of(attachment);
    if (code == ErrorCode::mismatch) {
        text += announced_.called_from(slot, entry->slot == kNoSlot ? 0 : entry->generation);
    }
    end_disagreed(*entry, slot, {code, text}, groups_of(attachment));
}

std::string LogAnswers::text_of(std::uint32_t attachment) const {
    const auto* text = reinterpret_cast<const char*>(view_.memory.attachment(attachment - 1));
    return {text, strnlen(text, view_.extent().attachment_bytes)};
}

/// Reads the sizes of groups from an attachment (the data that a log entry refers to). Leader::apply_refusal() wrote
/// the sizes after the attachment's text.
Groups::RanksOfCount LogAnswers::groups_of(std::uint32_t attachment) const {
    const std::size_t bytes = view_.extent().attachment_bytes;
    const std::byte* const room = view_.memory.attachment(attachment - 1);
    const std::size_t text = strnlen(reinterpret_cast<const char*>(room), bytes) + 1;
    Groups::RanksOfCount groups;
    for (std::size_t at = text; at + sizeof(std::int64_t) <= bytes; at += sizeof(std::int64_t)) {
        std::int64_t count = 0;
        std::memcpy(&count, room + at, sizeof(count));
        if (count <= 0) {
            break;
        }
        groups[count] = {};
    }
    return groups;
}

void LogAnswers::end_disagreed(TensorEntry& entry, std::uint32_t slot, const Status& status,
                               const Groups::RanksOfCount& groups) {
    if (!groups.empty()) [[unlikely]] {
        if (const Status ended = groups_.end(entry, groups, status, entry.slot == kNoSlot); !ended.is_ok()) {
            ends_.raise(ended);
            return;
        }
    }
    if (slot >= view_.extent().unnamed_slots) {
        entry.in_full = false;
        announcer_.table().unbind(entry);
        ends_.forget_finished(slot);
    }
    announcer_.complete_and_forget(entry, status);
}

/// Ends the operation in `slot` because of a shutdown.
void LogAnswers::follow_failure(std::uint32_t slot) {
    TensorEntry* entry = announcer_.entry_of_slot(slot);
    if (entry == nullptr) {
        return;  // this rank announced no operation in this slot, so no operation of this rank ends
    }
    announcer_.forget_uncalled();
    if (direct_.is(*entry)) {
        // another rank has announced the operation through the slot's counter, so no rank can complete it directly
        direct_.forget();
    }
    entry->in_full = false;
    const bool was_pending = entry->pending.load(std::memory_order_relaxed);
    if (slot >= view_.extent().unnamed_slots) {
        announcer_.table().unbind(*entry);
    }
    if (was_pending) {
        announcer_.complete_and_forget(
            *entry, entry->name.empty() ? reasons_.shut_down_unnamed(*entry) : reasons_.shut_down(entry->name));
    }
}

/// Ends an operation that is impossible because it needs data of ranks that have joined. The error's text is the same
/// on all ranks. On several hosts, the root of the tree wrote it into the attachment (the data that the log entry
/// refers to).
void LogAnswers::follow_lack_of_joined(std::uint32_t slot, std::uint32_t attachment) {
    if (attachment != 0) {
        follow_disagreement(slot, attachment, ErrorCode::invalid_argument);
        return;
    }
    TensorEntry* const entry = pending_in(slot, "a lack of ranks that have joined");
    if (entry == nullptr) {
        return;
    }
    const std::uint64_t generation = entry->slot == kNoSlot ? 0 : entry->generation;
    std::vector<std::int32_t> joined;
    Metadata metadata;
    for (std::uint32_t member = 0; member < view_.extent().members; ++member) {
        if (announced_.stood_in(slot, member, generation)) {
            joined.push_back(view_.identity.ranks[member]);
        } else {
            metadata = Registrar<Atomics>::announced_metadata(view_.memory, slot, member, generation);
        }
    }
    const std::uint64_t call = entry->name.empty() ? view_.call_of_unnamed(slot, generation) : 0;
    end_disagreed(*entry, slot,
                  lacks_joined(entry->name, static_cast<collectives::Operation>(metadata.operation), joined, call));
}

/// All ranks of this host have joined, and other hosts have announced an operation. This function announces the same
/// operation for this rank. The log entry refers to the attachment, which holds the operation's name. If the operation
/// has no name, the attachment holds its number.
void LogAnswers::follow_wanted(std::uint32_t slot, std::uint32_t attachment) {
    if (attachment == 0 || attachment > view_.extent().attachments || !join_.has_joined()) {
        ends_.raise(ErrorCode::internal,
                    fmt::format("the log has an operation that other hosts wait for, with attachment {}, and rank {} "
                                "has{} joined",
                                attachment, view_.own_job_rank(), join_.has_joined() ? "" : " not"));
    } else if (slot == kNoSlot) {
        join_.stand_in_for_name(text_of(attachment));
    } else {
        std::uint64_t last = 0;
        std::memcpy(&last, view_.memory.attachment(attachment - 1), sizeof(last));
        join_.stand_in_for_calls(last);
    }
}

/// Handles a log entry that refuses one member's announcement by name. Every member of the set calls this function. The
/// member `answer.rank`, whose announcement is refused, ends its operation. The other members wake that member, because
/// it may sleep.
void LogAnswers::follow_refusal(const Entry& answer) {
    if (answer.rank != view_.rank) {
        if (answer.rank < view_.extent().members) {
            waking_.wake(answer.rank);
        }
        return;
    }
    TensorEntry* entry = announcer_.table().with_ticket(answer.ticket);
    if (entry == nullptr || !entry->in_full) {
        return;
    }
    const Status status = answer.kind == EntryKind::exhausted ? reasons_.exhausted(entry->name, answer.bytes)
                                                              : reasons_.shut_down(entry->name);
    entry->in_full = false;
    announcer_.complete_and_forget(*entry, status);
}

}  // namespace rueda::core
