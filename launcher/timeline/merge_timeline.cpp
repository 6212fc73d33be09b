// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/timeline/merge_timeline.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/timeline/operation_groups.hpp"
#include "base/timeline/trace_events.hpp"

namespace rueda::launcher {

namespace {

using base::TimelineOperation;

/// Appends all events of these operations to `text`. Returns how many of the operations are collective.
std::uint64_t append_operations(std::vector<TimelineOperation> operations, base::TraceEvents& events,
                                std::string& text) {
    std::stable_sort(operations.begin(), operations.end(),
                     [](const auto& a, const auto& b) { return a.record.announced_ns < b.record.announced_ns; });
    std::int64_t last_ns = 0;
    for (const TimelineOperation& operation : operations) {
        last_ns = std::max(last_ns, operation.record.ended_ns.value_or(operation.record.announced_ns));
    }
    constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
    base::OperationGroups groups(kAll);
    std::vector<base::OperationGroup> ready;
    std::uint64_t count = 0;
    for (TimelineOperation& operation : operations) {
        events.add_alone(operation, last_ns, text);
        if (base::RecordKind::is_collective(operation.record.kind)) {
            ++count;
            groups.add(std::move(operation), kAll, 0, ready);
        }
    }
    groups.release_all(ready);
    for (const base::OperationGroup& group : ready) {
        events.add_group(group, last_ns, text);
    }
    events.finish(last_ns, text);
    return count;
}

std::string whole_file(const std::string& lines, const base::TimelineEnd& end) {
    return "[\n" + lines + base::format_end(end) + "\n]\n";
}

TimelineOperation shifted(const base::Recording& recording, base::RecordedOperation record, std::int64_t by_ns) {
    record.announced_ns += by_ns;
    if (record.started_ns) {
        *record.started_ns += by_ns;
    }
    if (record.ended_ns) {
        *record.ended_ns += by_ns;
    }
    return {recording.rank, std::move(record)};
}

}  // namespace

MergedTimeline timeline_of(const std::vector<base::Recording>& recordings) {
    std::int64_t began = std::numeric_limits<std::int64_t>::max();
    std::vector<std::string> hosts;
    for (const base::Recording& recording : recordings) {
        began = std::min(began, recording.began_ns + recording.realtime_offset_ns);
        if (std::find(hosts.begin(), hosts.end(), recording.host) == hosts.end()) {
            hosts.push_back(recording.host);
        }
    }
    constexpr std::int64_t kNotMeasured = -1;
    const base::TimelineHeader header{.host = hosts.front(),
                                      .host_index = 0,
                                      .host_count = static_cast<std::int32_t>(hosts.size()),
                                      .size = recordings.front().size,
                                      .is_merged = true,
                                      .began_realtime_ns = began,
                                      .clock_uncertainty_ns = hosts.size() > 1 ? kNotMeasured : 0};
    MergedTimeline made;
    std::string lines = base::format_header(header);
    base::TraceEvents events(false);
    std::vector<TimelineOperation> operations;
    for (const base::Recording& recording : recordings) {
        events.add_rank(recording.rank, recording.host, lines);
        for (const base::RecordedOperation& record : recording.operations) {
            operations.push_back(shifted(recording, record, recording.realtime_offset_ns - began));
        }
    }
    made.ranks = recordings.size();
    made.end.operations = append_operations(std::move(operations), events, lines);
    made.text = whole_file(lines, made.end);
    return made;
}

}  // namespace rueda::launcher
