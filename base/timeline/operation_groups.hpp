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

/// The records of one operation on several ranks.
using OperationGroup = std::vector<TimelineOperation>;

/// Collects operations of several ranks, and puts the records of the same operation into one group. A group is released
/// when all ranks of the operation have added their records. The number of operations in the object is limited.
class OperationGroups {
public:
    /// If the object holds more than `most_operations` operations, it releases the groups of the oldest operations.
    explicit OperationGroups(std::size_t most_operations) : most_operations_(most_operations) {}

    /// Adds an operation of one rank. `members` is the number of ranks that take part in it. Appends to `ready` every
    /// group that is complete, and the oldest groups if the object holds too many operations.
    void add(TimelineOperation operation, std::size_t members, std::int64_t now_ns, std::vector<OperationGroup>& ready);
    /// Releases the groups whose first operation was added before `ns`.
    void release_older(std::int64_t ns, std::vector<OperationGroup>& ready);
    void release_all(std::vector<OperationGroup>& ready);
    /// Whether an incomplete group may still need this record. The result is true if a group's operation has the same
    /// NameKey. The record need not contain the position of its batch, because the NameKey does not contain it.
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
    std::size_t held_ = 0;  // number of operations in all groups
    Entries entries_;       // groups, the oldest first
    std::unordered_map<OperationKey, Entries::iterator, OperationKeyHash> by_key_;
};

}  // namespace rueda::base
