// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Groups (docs/design/0006-groups-and-roots.md): operations that are started together, and end together where ranks
// disagree about how many they are.
#include "core/operations/groups.hpp"

#include <map>
#include <span>

#include "core/runtime/process_set.hpp"

namespace rueda::core {

/// What is announced beside the members is found out about before anything is pending.
Status ProcessSet::check_group(const std::string& count_name, std::span<const std::string> names) {
    RUEDA_RETURN_IF_FAILED(check_open(names.front()));
    for (const std::string& name : names) {
        if (table_.entry(name).pending.load(std::memory_order_acquire)) {
            return failure(
                ErrorCode::duplicate_name,
                "tensor '{}' of a group: an operation with this name is still pending on this rank; nothing of the "
                "group was started",
                name);
        }
    }
    if (set_size_ > 1 && table_.entry(count_name).pending.load(std::memory_order_acquire)) {
        return failure(ErrorCode::duplicate_name,
                       "group '{}': a group with this name is still pending on this rank; wait for it, or use another "
                       "name",
                       group_of_count(count_name));
    }
    return {};
}

Status ProcessSet::submit_group(std::string_view group, std::span<const std::string> names,
                                std::span<const Request> requests, Completion& completion, Urgency urgency) {
    const std::lock_guard lock(enqueue_mutex_);
    std::string count_name;
    Request count;
    make_count(names.size(), identity_.id, count);
    Status status = all_or_nothing([&] {
        count_name = name_of_count(group);
        return check_group(count_name, names);
    });
    const auto each = [&](const std::string& name, const Request& request) {
        TensorEntry* const entry = table_.find(name);
        if (status.is_ok()) {
            ask_for(*entry, request);
            start(*entry, completion, urgency);
        } else if (entry != nullptr) {
            table_.forget_if_unused(*entry);
        }
    };
    if (set_size_ > 1) {
        if (status.is_ok()) {
            completion.add_members(1);
        }
        each(count_name, count);  // first: its batch is settled before those of the members begin
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        each(names[i], requests[i]);
    }
    return status;
}

/// All ranks have said how many members they have. Where those are not the same, nobody can complete his members alone:
/// every rank announces, beside its own, the members that others have, as what they are not, so that all of them fail
/// on all ranks, by the one way that there is.
Status ProcessSet::settle_group(TensorEntry& entry) {
    if (entry.stands_in) {
        return {};  // and so it does for whatever members the others announce
    }
    std::map<std::int64_t, std::vector<std::int32_t>> ranks_of;
    for (std::size_t member = 0; member < rows_.size(); ++member) {
        if (extent_.is_led() ? rows_[member] == kJoinedRows : locations_[member].absent) {
            continue;
        }
        if (rows_[member] < 1 || rows_[member] > static_cast<std::int64_t>(kMostGroupMembers)) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a group of {}", entry.name,
                           identity_.ranks[member], rows_[member]);
        }
        ranks_of[rows_[member]].push_back(identity_.ranks[member]);
    }
    if (ranks_of.size() == 1) {
        return {};
    }
    const std::string group(group_of_count(entry.name));
    for (const auto& [count, ranks] : ranks_of) {
        // Of its own members a rank has checked the names; what others say may make longer ones.
        const auto members = static_cast<std::size_t>(count);
        if (count != entry.request.first_dimension &&
            name_of_member(group, members - 1, members).size() > RUEDA_MAX_NAME) {
            return failure(ErrorCode::internal,
                           "tensor '{}': rank {} announced a group of {}, and the names of its members would be longer "
                           "than {} bytes",
                           entry.name, ranks.front(), count, RUEDA_MAX_NAME);
        }
    }
    // Its members may have failed before, where the ranks together have more than there are slots.
    entry.completion->fail_foremost(failure(ErrorCode::mismatch,
                                            "group '{}': the ranks disagree about the number of its members: {}", group,
                                            describe_counts(ranks_of)));
    for (const auto& [count, ranks] : ranks_of) {
        if (count != entry.request.first_dimension) {
            announce_for_others(group, count, entry);
        }
    }
    return {};
}

/// Under the name of each member of a group of `count`, as long as `entry` is pending: then nobody on this rank has
/// anything to do with them.
void ProcessSet::announce_for_others(std::string_view group, std::int64_t count, const TensorEntry& entry) {
    const std::lock_guard lock(enqueue_mutex_);
    if (!check_open(entry.name).is_ok()) {
        // After a failure or a shutdown all that is pending fails. In join() this rank stands in for whatever others
        // have pending, so their members end without it, some of them well; the groups' handles fail all the same.
        return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
        TensorEntry& other =
            table_.entry(name_of_member(group, static_cast<std::size_t>(i), static_cast<std::size_t>(count)));
        if (!other.pending.load(std::memory_order_acquire)) {
            other.ask_for(entry.request);
            entry.completion->add_members(1);
            start(other, *entry.completion, Urgency::background);
        }
    }
}

}  // namespace rueda::core
