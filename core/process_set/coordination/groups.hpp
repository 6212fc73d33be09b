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

/// Groups (docs/design/0006-groups-and-roots.md): operations that are started together. They also end together if the
/// ranks disagree about the number of the group's members.
///
/// Threads: submit(), any; it takes the enqueue lock. settle(): the thread that drives progress. end(): under the lock.
class Groups {
public:
    /// The ranks of the job that mean a group of this many members. Ranks on other hosts are not listed.
    using RanksOfCount = std::map<std::int64_t, std::vector<std::int32_t>>;

    Groups(const SetView& view, Announcer& announcer) : view_(view), announcer_(announcer) {}

    /// As ProcessSet::submit_group().
    Status submit(std::string_view group, std::span<const std::string> names, std::span<const Request> requests,
                  Completion& completion, Urgency urgency);
    /// All ranks have announced how many members their groups have; `batch` has the numbers. If they differ, no rank
    /// can complete its members by itself. `in_full`: the name had no slot.
    Status settle(TensorEntry& entry, const CalledBatch& batch, bool in_full);
    /// Ends groups whose ranks disagree about the number of members. Every rank also announces, with a wrong meaning,
    /// the members that other ranks have and it does not have. All members then fail on all ranks, by the usual
    /// mismatch. `in_full`: the name had no slot. `entry` is still pending.
    Status end(TensorEntry& entry, const RanksOfCount& ranks_of, const Status& mismatch, bool in_full);

private:
    [[nodiscard]] bool fits_in_slots(std::size_t members) const;
    [[nodiscard]] Status too_many_members(std::string_view group, std::size_t members) const;
    [[nodiscard]] Status check(std::string_view group, std::size_t members, std::span<const std::string> names);
    /// Whether members ever wait for their number. See holds_members_of().
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
