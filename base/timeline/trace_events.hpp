// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/timeline/operation_groups.hpp"
#include "base/timeline/rank_rows.hpp"
#include "base/timeline/timeline_operation.hpp"

namespace rueda::base {

/// Makes the events of a trace (a timeline file). Each function appends lines to `text`; every line ends with a comma.
///
/// An operation has these events, in the row of its name:
/// - NEGOTIATE_ALLREDUCE: from the announcement by this rank until all ranks had announced the operation. If another
///   rank announced it last, for example rank 2, this event contains a span "waiting for rank 2".
/// - ALLREDUCE: from the end of NEGOTIATE_ALLREDUCE until the operation has ended on this rank. This event contains two
///   spans: QUEUE ends when this rank starts the operation, and then EXECUTE begins.
///
/// A message has an event "SEND to rank 2" or "RECEIVE from rank 0". It begins when this rank calls send() or receive()
/// and ends with the message. It contains two other events. The first one, for example "waiting for rank 2", lasts
/// until this rank knows that rank 2 has called the matching function. The second one is TRANSFER.
class TraceEvents {
public:
    explicit TraceEvents(bool marks_cycles) : marks_cycles_(marks_cycles) {}

    /// Adds a rank's name. Call this before all other functions for this rank.
    void add_rank(std::int32_t rank, std::string_view host, std::string& text);
    /// Adds a step, a scope, a part of an execution, a message, or an operation that has ended. The steps of a rank
    /// must be added in the order in which they began. If a message has not ended, its event ends at `now_ns`.
    void add_alone(const TimelineOperation& operation, std::int64_t now_ns, std::string& text);
    /// Makes the events of one operation from the records of all ranks. If a rank has not ended the operation, its
    /// event ends at `now_ns`.
    void add_group(const OperationGroup& group, std::int64_t now_ns, std::string& text);
    /// Adds an event which says that `count` records of this rank were overwritten before they were read.
    void add_lost(std::int32_t rank, std::uint64_t count, std::int64_t now_ns, std::string& text) const;
    /// Appends the complete spans of batches and waits. Such a span covers several operations.
    void settle(std::string& text);
    /// Appends all spans that are not complete yet.
    void finish(std::int64_t now_ns, std::string& text);

private:
    [[nodiscard]] RankRows& rows_of(std::int32_t rank) { return ranks_.try_emplace(rank, rank).first->second; }
    void add_operation(const TimelineOperation& operation, std::int32_t last_rank, std::int64_t ready_ns,
                       std::int64_t now_ns, std::string& text);

    bool marks_cycles_;
    std::map<std::int32_t, RankRows> ranks_;
};

}  // namespace rueda::base
