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

/// Groups (docs/design/0006-groups-and-roots.md) are operations that are started together. If the ranks disagree about
/// the number of the group's members, the operations also end together.
///
/// Threads: any thread may call submit(), which takes the enqueue lock. The thread that drives progress calls settle().
/// end() runs under the lock.
class Groups {
public:
    /// For each number of members: the ranks of the job whose group has this many members. Ranks on other hosts are not
    /// listed.
    using RanksOfCount = std::map<std::int64_t, std::vector<std::int32_t>>;

    Groups(const SetView& view, Announcer& announcer) : view_(view), announcer_(announcer) {}

    /// As ProcessSet::submit_group().
    Status submit(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                  Completion& completion, Urgency urgency);
    /// Called when all ranks have announced how many members their groups have; `batch` has the numbers. If the numbers
    /// differ, the members cannot complete by themselves. `in_full`: the name had no slot.
    Status settle(TensorEntry& entry, const CalledBatch& batch, bool in_full);
    /// Ends groups whose ranks disagree about the number of members. Some ranks have members that this rank does not
    /// have: this rank announces them with metadata that cannot match. So all members fail on all ranks, as in every
    /// mismatch. `in_full`: the name had no slot. `entry` is still pending.
    Status end(TensorEntry& entry, const RanksOfCount& ranks_of, const Status& mismatch, bool in_full);

private:
    [[nodiscard]] bool fits_in_slots(std::size_t members) const;
    [[nodiscard]] Status too_many_members(std::string_view group, std::size_t members) const;
    [[nodiscard]] Status check(std::string_view group, std::size_t members, std::span<const std::string> names);
    /// Whether members of a group may have to wait for the group's number; see holds_members_of().
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
