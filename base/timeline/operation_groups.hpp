// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "base/recorder/operation_key.hpp"
#include "base/timeline/timeline_operation.hpp"

namespace rueda::base {

/// The same operation on several ranks.
using OperationGroup = std::vector<TimelineOperation>;

/// Collects the operations of several ranks until each operation is known from all its ranks. Its memory is bounded.
class OperationGroups {
public:
    /// If it holds more operations than this, it releases the oldest.
    explicit OperationGroups(std::size_t most_operations) : most_operations_(most_operations) {}

    /// Adds an operation, which is expected from `members` ranks. Appends the groups to `ready` that are complete, or
    /// that have to go.
    void add(TimelineOperation operation, std::size_t members, std::int64_t now_ns, std::vector<OperationGroup>& ready);
    /// Releases the groups whose first operation was added before `ns`.
    void release_older(std::int64_t ns, std::vector<OperationGroup>& ready);
    void release_all(std::vector<OperationGroup>& ready);
    /// Whether a group may be waiting for this operation. The record may not say yet in which batch it is.
    [[nodiscard]] bool may_await(const RecordedOperation& record) const;
    [[nodiscard]] std::size_t size() const { return held_; }

private:
    struct Entry {
        OperationKey key;
        std::int64_t added_ns = 0;
        OperationGroup group;
    };
    using Entries = std::list<Entry>;
    void release(Entries::iterator entry, std::vector<OperationGroup>& ready);

    std::size_t most_operations_;
    std::size_t held_ = 0;  // operations in all groups
    Entries entries_;       // the oldest first
    std::unordered_map<OperationKey, Entries::iterator, OperationKeyHash> by_key_;
};

}  // namespace rueda::base
