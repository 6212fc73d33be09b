// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/coordination/groups.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "core/negotiation/claims.hpp"
#include "core/operations/groups.hpp"

namespace rueda::core {

/// Whether all members of the group can have a slot at the same time. With several ranks, one more slot is needed: for
/// the operation in which the ranks compare their numbers of members. If the group is too large, every rank starts only
/// this operation. All ranks then learn that the group is too large, or that their numbers differ.
bool Groups::fits_in_slots(std::size_t members) const {
    return members + (view_.set_size > 1 ? 1 : 0) <= view_.extent().for_names(view_.extent().slots);
}

Status Groups::too_many_members(std::string_view group, std::size_t members) const {
    return failure(ErrorCode::resource_exhausted,
                   "group '{}' has {} tensors, which take {} slots for tensor names at a time, and RUEDA_SLOTS_MAX is "
                   "{}: make several groups of it, or raise RUEDA_SLOTS_MAX; no member of the group was started",
                   group, members, members + (view_.set_size > 1 ? 1 : 0),
                   view_.extent().for_names(view_.extent().slots));
}

/// Checks the names of the group and of its members, before any of its operations is started. `names` holds the names
/// of the members. If the group is too large, no member will be started, and `names` is empty.
Status Groups::check(std::string_view group, std::size_t members, std::span<const std::string> names) {
    RUEDA_RETURN_IF_FAILED(announcer_.check_open(names.empty() ? group : std::string_view(names.front())));
    for (const std::string& name : names) {
        if (announcer_.table().entry(name).pending.load(std::memory_order_acquire)) {
            return failure(
                ErrorCode::duplicate_name,
                "tensor '{}' of a group: an operation with this name is still pending on this rank; nothing of the "
                "group was started",
                name);
        }
    }
    if (view_.set_size == 1) {
        return {};
    }
    const TensorEntry& count = announcer_.table().entry(group);
    const bool repeats = !names.empty() && count.request.first_dimension == static_cast<std::int64_t>(members);
    if (count.pending.load(std::memory_order_acquire) || (!repeats && announcer_.has_pending_members(count))) {
        return failure(ErrorCode::duplicate_name,
                       "group '{}': a group or an operation with this name is still pending on this rank; wait for it, "
                       "or use another name",
                       group);
    }
    return {};
}

Status Groups::submit(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                      Completion& completion, Urgency urgency) {
    const std::lock_guard lock(announcer_.enqueue_mutex());
    const bool fits = fits_in_slots(names.size());
    const std::span<const std::string> members = fits ? names : std::span<const std::string>();
    Status status = announcer_.all_or_nothing([&]() -> Status {
        if (!fits && view_.set_size == 1) {
            return too_many_members(group, names.size());
        }
        return check(group, names.size(), members);
    });
    if (!status.is_ok()) {
        forget_unused(group);
        std::for_each(members.begin(), members.end(), [this](const std::string& name) { forget_unused(name); });
        return status;
    }
    // The number of members is announced first, so that the ranks compare these numbers before the members' batches
    // begin.
    TensorEntry* const number =
        view_.set_size > 1 ? &start_number(group, names.size(), fits, completion, urgency) : nullptr;
    TensorEntry** held = number != nullptr && holds_members_of(*number) ? &number->held : nullptr;
    for (std::size_t i = 0; i < members.size(); ++i) {
        TensorEntry& member = *announcer_.table().find(members[i]);
        announcer_.ask_for(member, requests[i]);
        member.of_group = true;
        if (held == nullptr) {
            announcer_.start(member, completion, urgency);
        } else {
            announcer_.hold(member, completion);
            *held = &member;
            held = &member.next;
        }
    }
    return {};
}

/// Announces the group's number of members. If the group does not fit into the slots, `fits` is false, and the caller
/// does not start the members.
TensorEntry& Groups::start_number(std::string_view group, std::size_t members, bool fits, Completion& completion,
                                  Urgency urgency) {
    completion.add_members(1);
    if (!fits) {
        // subtracts `members` (in unsigned arithmetic) from the number of awaited operations, because these members
        // will not be started
        completion.add_members(~static_cast<std::uint32_t>(members) + 1);
    }
    Request count;
    make_count(members, view_.identity.id, count);
    TensorEntry& entry = *announcer_.table().find(group);
    announcer_.ask_for(entry, count);
    entry.of_group = true;
    announcer_.start(entry, completion, urgency);
    return entry;
}

void Groups::forget_unused(std::string_view name) {
    if (TensorEntry* const entry = announcer_.table().find(name)) {
        announcer_.table().forget_if_unused(*entry);
    }
}

/// Whether the members of the group must wait until the log has called `count`, the operation that announces their
/// number. They must wait if `count` has no slot yet. If `count` never gets a slot, no rank learns how many members the
/// other ranks have, so members that only some ranks have announced would never end. All ranks decide in the same way.
/// On one host, either all ranks have a slot for `count`, or no rank has one. On several hosts, the job ends if no slot
/// is free.
bool Groups::holds_members_of(const TensorEntry& count) const {
    return holds_members() && count.slot == kNoSlot && count.pending.load(std::memory_order_relaxed);
}

Status Groups::settle(TensorEntry& entry, const CalledBatch& batch, bool in_full) {
    if (entry.stands_in) {
        return {};  // a rank that has joined announces the members only when other ranks announce them
    }
    RanksOfCount ranks_of;
    for (std::size_t member = 0; member < batch.members(); ++member) {
        const std::optional<std::int64_t> count = batch.rows_of(member);
        if (!count) {
            continue;
        }
        if (*count < 1) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a group of {}", entry.name,
                           view_.identity.ranks[member], *count);
        }
        ranks_of[*count].push_back(view_.identity.ranks[member]);
    }
    if (ranks_of.size() == 1) {
        if (const auto members = static_cast<std::size_t>(ranks_of.begin()->first); !fits_in_slots(members)) {
            entry.completion->fail_foremost(too_many_members(entry.name, members));
        }
        if (in_full) {
            const std::lock_guard lock(announcer_.enqueue_mutex());
            announcer_.announce_held(entry);
        }
        return {};
    }
    const std::lock_guard lock(announcer_.enqueue_mutex());
    return end(entry, ranks_of,
               failure(ErrorCode::mismatch, "group '{}': the ranks disagree about the number of its members: {}",
                       entry.name, describe_counts(ranks_of)),
               in_full);
}

Status Groups::end(TensorEntry& entry, const RanksOfCount& ranks_of, const Status& mismatch, bool in_full) {
    if (entry.stands_in || entry.completion == nullptr) {
        return {};
    }
    const std::int64_t own = is_size_of_group(entry.request.metadata) ? entry.request.first_dimension : 0;
    RUEDA_RETURN_IF_FAILED(check_counts(entry, ranks_of, own));
    // A member may have failed earlier, because the slots do not suffice for the names of all ranks. The mismatch
    // replaces the error of this earlier failure.
    entry.completion->fail_foremost(mismatch);
    if (in_full && holds_members()) {
        // No rank has announced a member: the members were held back until all ranks had announced their numbers of
        // members.
        announcer_.end_held(entry, mismatch);
        return {};
    }
    if (!announcer_.check_open(entry.name).is_ok()) {
        // Here this rank may start no operations, because of a failure, a shutdown or a join. The members end
        // nevertheless. After a failure or a shutdown, all pending operations fail. During a join, this rank announces
        // everything that other ranks announce. Even if some of the members succeed, the group's handle fails.
        return {};
    }
    for (const auto& [count, ranks] : ranks_of) {
        if (count != own && fits_in_slots(static_cast<std::size_t>(count))) {
            announce_for_others(count, entry);
        }
    }
    return {};
}

/// Checks that the number of members of every rank is possible. The names of members contain numbers, so they may be
/// longer if another rank's group has more members. This rank has not checked the length of such names before.
Status Groups::check_counts(const TensorEntry& entry, const RanksOfCount& ranks_of, std::int64_t own) const {
    for (const auto& [count, ranks] : ranks_of) {
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
    return {};
}

/// Makes the members of another rank's group fail, which has `count` members. For this purpose, this function announces
/// a group of 0 members under the name of each member. No caller can start a group of 0 members, so this announcement
/// matches no announcement of another rank. Callers of this rank cannot use these names, because `entry` (the group's
/// operation) is still pending.
void Groups::announce_for_others(std::int64_t count, const TensorEntry& entry) {
    Request nothing;
    make_count(0, view_.identity.id, nothing);
    for (std::int64_t i = 0; i < count; ++i) {
        TensorEntry& other = announcer_.table().entry(
            name_of_member(entry.name, static_cast<std::size_t>(i), static_cast<std::size_t>(count)));
        if (!other.pending.load(std::memory_order_acquire)) {
            other.ask_for(nothing);
            other.of_group = true;
            entry.completion->add_members(1);
            announcer_.start(other, *entry.completion, Urgency::background);
        }
    }
}

}  // namespace rueda::core
