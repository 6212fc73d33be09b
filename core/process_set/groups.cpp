// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Groups (docs/design/0006-groups-and-roots.md): operations that are started together. They also end together if the
// ranks disagree about the number of the group's members.
#include "core/operations/groups.hpp"

#include <map>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "core/negotiation/claims.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

/// All members of a group are pending at the same time. If other ranks must be asked for their numbers, the group's own
/// number is pending as well. If a group does not fit, every rank announces only its number. All ranks then learn that
/// it does not fit, or that they disagree.
bool ProcessSet::fits_in_slots(std::size_t members) const {
    return members + (set_size_ > 1 ? 1 : 0) <= extent_.for_names(extent_.slots);
}

Status ProcessSet::too_many_members(std::string_view group, std::size_t members) const {
    return failure(ErrorCode::resource_exhausted,
                   "group '{}' has {} tensors, which take {} slots for tensor names at a time, and RUEDA_SLOTS_MAX is "
                   "{}: make several groups of it, or raise RUEDA_SLOTS_MAX; no member of the group was started",
                   group, members, members + (set_size_ > 1 ? 1 : 0), extent_.for_names(extent_.slots));
}

/// Whether members of the last group with this name are still pending. After a disagreement, or after its slot was
/// taken, the name may be forgotten earlier than its members.
bool ProcessSet::has_pending_members(const TensorEntry& entry) {
    const Request& last = entry.request;
    for (std::int64_t i = 0; is_size_of_group(last.metadata) && i < last.first_dimension; ++i) {
        const TensorEntry* const member = table_.find(
            name_of_member(entry.name, static_cast<std::size_t>(i), static_cast<std::size_t>(last.first_dimension)));
        if (member != nullptr && member->of_group && member->pending.load(std::memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

/// Checks the names that are announced in addition to the group's own, before anything is pending. `names` holds the
/// members to be started: all of the `members`, or none.
Status ProcessSet::check_group(std::string_view group, std::size_t members, std::span<const std::string> names) {
    RUEDA_RETURN_IF_FAILED(check_open(names.empty() ? group : std::string_view(names.front())));
    for (const std::string& name : names) {
        if (table_.entry(name).pending.load(std::memory_order_acquire)) {
            return failure(
                ErrorCode::duplicate_name,
                "tensor '{}' of a group: an operation with this name is still pending on this rank; nothing of the "
                "group was started",
                name);
        }
    }
    if (set_size_ == 1) {
        return {};
    }
    const TensorEntry& count = table_.entry(group);
    const bool repeats = !names.empty() && count.request.first_dimension == static_cast<std::int64_t>(members);
    if (count.pending.load(std::memory_order_acquire) || (!repeats && has_pending_members(count))) {
        return failure(ErrorCode::duplicate_name,
                       "group '{}': a group or an operation with this name is still pending on this rank; wait for it, "
                       "or use another name",
                       group);
    }
    return {};
}

Status ProcessSet::submit_group(std::string_view group, std::span<const std::string> names,
                                std::span<const Request> requests, Completion& completion, Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    Request count;
    make_count(names.size(), identity_.id, count);
    const bool fits = fits_in_slots(names.size());
    Status status = all_or_nothing([&]() -> Status {
        if (!fits && set_size_ == 1) {
            return too_many_members(group, names.size());
        }
        return check_group(group, names.size(), fits ? names : std::span<const std::string>());
    });
    TensorEntry** held = nullptr;  // where the next member of the chain is stored; null: members are announced at once
    const auto each = [&](std::string_view name, const Request& request) {
        TensorEntry* const entry = table_.find(name);
        if (status.is_ok()) {
            ask_for(*entry, request);
            entry->of_group = true;
            if (held == nullptr) {
                start(*entry, completion, urgency);
                return;
            }
            begin_pending(*entry, completion);
            pending_.fetch_add(1, std::memory_order_seq_cst);
            entry->is_held = true;
            entry->next = nullptr;
            *held = entry;
            held = &entry->next;
        } else if (entry != nullptr) {
            table_.forget_if_unused(*entry);
        }
    };
    if (set_size_ > 1) {
        if (status.is_ok()) {
            completion.add_members(1);
        }
        if (status.is_ok() && !fits) {
            // only the group's number is announced
            completion.add_members(~static_cast<std::uint32_t>(names.size()) + 1);
        }
        each(group, count);  // the number comes first, so that its batch is settled before those of the members begin
    }
    if (!fits) {
        return status;
    }
    if (TensorEntry* const started = status.is_ok() && set_size_ > 1 ? table_.find(group) : nullptr;
        started != nullptr && holds_members_of(*started)) {
        held = &started->held;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        each(names[i], requests[i]);
    }
    return status;
}

/// Whether the members must wait for the group's number. A number without a slot may find none, and then no rank learns
/// the others' numbers. So the members are announced only when the number is called. This is the same on all ranks,
/// because on one host either all announce the number in full, or all announce it in its slot. (On several hosts the
/// job ends if there is no slot.)
bool ProcessSet::holds_members_of(const TensorEntry& count) const {
    return !leader_calls_ && count.slot == kNoSlot && count.pending.load(std::memory_order_relaxed);
}

/// This function and the next run under the enqueue lock.
void ProcessSet::announce_held(TensorEntry& count) {
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

void ProcessSet::end_held(TensorEntry& count, const Status& status) {
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

/// All ranks have announced how many members their groups have. If these numbers differ, no rank can complete its
/// members by itself.
Status ProcessSet::settle_group(TensorEntry& entry, bool in_full) {
    if (entry.stands_in) {
        return {};  // it will also stand in for all members that the others announce
    }
    RanksOfCount ranks_of;
    for (std::size_t member = 0; member < batch_.members(); ++member) {
        const std::optional<std::int64_t> count = batch_.rows_of(member);
        if (!count) {
            continue;
        }
        if (*count < 1) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a group of {}", entry.name,
                           identity_.ranks[member], *count);
        }
        ranks_of[*count].push_back(identity_.ranks[member]);
    }
    if (ranks_of.size() == 1) {
        if (const auto members = static_cast<std::size_t>(ranks_of.begin()->first); !fits_in_slots(members)) {
            entry.completion->fail_foremost(too_many_members(entry.name, members));
        }
        if (in_full) {
            const std::lock_guard lock(enqueue_mutex_);
            announce_held(entry);
        }
        return {};
    }
    const std::lock_guard lock(enqueue_mutex_);
    return end_groups(entry, ranks_of,
                      failure(ErrorCode::mismatch, "group '{}': the ranks disagree about the number of its members: {}",
                              entry.name, describe_counts(ranks_of)),
                      in_full);
}

/// Ends groups whose ranks disagree about the number of members. Every rank also announces, with a wrong meaning, the
/// members that other ranks have and it does not have. All members then fail on all ranks, by the usual mismatch.
/// `in_full` says that the name had no slot. Under the enqueue lock; `entry` is still pending.
Status ProcessSet::end_groups(TensorEntry& entry, const RanksOfCount& ranks_of, const Status& mismatch, bool in_full) {
    if (entry.stands_in || entry.completion == nullptr) {
        return {};
    }
    const std::int64_t own = is_size_of_group(entry.request.metadata) ? entry.request.first_dimension : 0;
    for (const auto& [count, ranks] : ranks_of) {
        // A rank has checked the names of its own members. Another rank's number may lead to longer names.
        if (count > static_cast<std::int64_t>(kMostGroupMembers) ||
            (count != own &&
             name_of_member(entry.name, static_cast<std::size_t>(count) - 1, static_cast<std::size_t>(count)).size() >
                 RUEDA_MAX_NAME)) {
            return failure(
                ErrorCode::internal,
                "tensor '{}': {} announced a group of {}; expected at most {}, with names of at most {} bytes "
                "for its members",
                entry.name, ranks.empty() ? "a rank" : base::format_ranks(ranks), count, kMostGroupMembers,
                RUEDA_MAX_NAME);
        }
    }
    // The members may have failed earlier, if the ranks together have more of them than there are slots.
    entry.completion->fail_foremost(mismatch);
    if (in_full && !leader_calls_) {
        end_held(entry, mismatch);  // no rank has announced a member
        return {};
    }
    if (!check_open(entry.name).is_ok()) {
        // After a failure or a shutdown everything pending fails. If this rank is in join(), it stands in for whatever
        // others have pending. Their members then end without it, some of them with success, but the groups' handles
        // fail all the same.
        return {};
    }
    for (const auto& [count, ranks] : ranks_of) {
        if (count != own && fits_in_slots(static_cast<std::size_t>(count))) {
            announce_for_others(count, entry);
        }
    }
    return {};
}

/// Announces under the name of each member of a group of `count` members, as long as `entry` is pending. No caller of
/// this rank can then use these names. The announcement is a group without members, which no caller can start.
void ProcessSet::announce_for_others(std::int64_t count, const TensorEntry& entry) {
    Request nothing;
    make_count(0, identity_.id, nothing);
    for (std::int64_t i = 0; i < count; ++i) {
        TensorEntry& other =
            table_.entry(name_of_member(entry.name, static_cast<std::size_t>(i), static_cast<std::size_t>(count)));
        if (!other.pending.load(std::memory_order_acquire)) {
            other.ask_for(nothing);
            other.of_group = true;
            entry.completion->add_members(1);
            start(other, *entry.completion, Urgency::background);
        }
    }
}

}  // namespace rueda::core
