// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/announcing/announcer.hpp"
#include "core/process_set/batches/called_batch.hpp"
#include "core/process_set/common/set_view.hpp"
#include "core/process_set/common/urgency.hpp"

namespace rueda::core {

/// Handles groups: operations that are started together and have one handle (docs/design/0006-groups-and-roots.md). The
/// ranks compare the numbers of members of their groups. If the numbers differ, all members end with an error.
///
/// Threads: submit() runs in any thread and takes the enqueue lock. settle() runs in the thread that drives progress.
/// end() runs under the lock.
class Groups {
public:
    /// For each number of members that a rank announced, the list of the ranks that announced it, by their numbers in
    /// the job. Ranks on other hosts may be missing from the lists.
    using RanksOfCount = std::map<std::int64_t, std::vector<std::int32_t>>;

    Groups(const SetView& view, Announcer& announcer) : view_(view), announcer_(announcer) {}

    /// See ProcessSet::submit_group().
    Status submit(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                  Completion& completion, Urgency urgency);
    /// Call this when all ranks have announced the number of members of their group; `batch` holds the numbers. If the
    /// numbers differ, this function ends the group with an error. `in_full` is true if this rank announced the number
    /// with the group's name, because the name had no slot.
    Status settle(TensorEntry& entry, const CalledBatch& batch, bool in_full);
    /// Ends a group if the ranks disagree about its number of members. If only other ranks have a member, this rank
    /// announces metadata for it that cannot match. All members therefore fail on all ranks with a mismatch. `in_full`
    /// is the same as for settle(). `entry` must still be pending.
    Status end(TensorEntry& entry, const RanksOfCount& ranks_of, const Status& mismatch, bool in_full);

private:
    [[nodiscard]] bool fits_in_slots(std::size_t members) const;
    [[nodiscard]] Status too_many_members(std::string_view group, std::size_t members) const;
    [[nodiscard]] Status check(std::string_view group, std::size_t members, std::span<const std::string> names);
    /// Whether members of a group may have to wait until the ranks have compared the numbers of members; see
    /// holds_members_of().
    [[nodiscard]] bool holds_members() const { return announcer_.caller() == Announcer::Caller::last_rank; }
    TensorEntry& start_number(std::string_view group, std::size_t members, bool fits, Completion& completion,
                              Urgency urgency);
    void forget_unused(std::string_view name);
    [[nodiscard]] bool holds_members_of(const TensorEntry& count) const;
    [[nodiscard]] Status check_counts(const TensorEntry& entry, const RanksOfCount& ranks_of, std::int64_t own) const;
    void announce_for_others(std::int64_t count, const TensorEntry& entry);

    const SetView& view_;
    Announcer& announcer_;
};

}  // namespace rueda::core
