// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/timeline/operation_groups.hpp"

#include <algorithm>
#include <utility>

namespace rueda::base {

void OperationGroups::add(TimelineOperation operation, std::size_t members, std::int64_t now_ns,
                          std::vector<OperationGroup>& ready) {
    const OperationKey key = key_of(operation.record);
    auto found = by_key_.find(key);
    if (found != by_key_.end() &&
        std::any_of(found->second->group.begin(), found->second->group.end(),
                    [&](const TimelineOperation& other) { return other.rank == operation.rank; })) {
        // This rank has already added an operation with this key, so the key stands for two operations. The group of
        // the first operation is released, although this group may be incomplete.
        release(found->second, ready);
        found = by_key_.end();
    }
    if (found == by_key_.end()) {
        entries_.push_back({.key = key, .added_ns = now_ns, .group = {}});
        found = by_key_.emplace(key, std::prev(entries_.end())).first;
    }
    OperationGroup& group = found->second->group;
    group.push_back(std::move(operation));
    ++held_;
    if (group.size() >= members) {
        release(found->second, ready);
    }
    while (held_ > most_operations_) {
        release(entries_.begin(), ready);
    }
}

void OperationGroups::release_older(std::int64_t ns, std::vector<OperationGroup>& ready) {
    while (!entries_.empty() && entries_.front().added_ns < ns) {
        release(entries_.begin(), ready);
    }
}

void OperationGroups::release_all(std::vector<OperationGroup>& ready) {
    while (!entries_.empty()) {
        release(entries_.begin(), ready);
    }
}

bool OperationGroups::may_await(const RecordedOperation& record) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [name = name_key_of(record)](const Entry& entry) { return entry.key.name == name; });
}

void OperationGroups::release(Entries::iterator entry, std::vector<OperationGroup>& ready) {
    held_ -= entry->group.size();
    by_key_.erase(entry->key);
    ready.push_back(std::move(entry->group));
    entries_.erase(entry);
}

}  // namespace rueda::base
