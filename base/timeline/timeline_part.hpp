// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/timeline/timeline_operation.hpp"

namespace rueda::base {

/// Facts about a timeline file. The first event of the file contains them.
struct TimelineHeader {
    std::string host;
    std::int32_t host_index = 0;  ///< this host's number; hosts are numbered in the order of their lowest ranks
    std::int32_t host_count = 1;  ///< number of hosts of the job; if it is more than 1, the file contains only this
                                  ///< host's part
    std::int32_t size = 1;        ///< the number of ranks of the job
    bool marks_cycles = false;
    bool is_merged = false;  ///< whether `rueda timeline` merged the file from the files of several hosts
    /// Time 0 of the timeline, in CLOCK_REALTIME of rank 0's host. All parts of a job have the same value.
    std::int64_t began_realtime_ns = 0;
    /// The job's clock is CLOCK_MONOTONIC of this host plus this offset. `clock_uncertainty_ns` is the largest possible
    /// error of the offset.
    std::int64_t clock_offset_ns = 0;
    std::int64_t clock_uncertainty_ns = 0;
};

/// Whether two files contain parts of one job's timeline.
[[nodiscard]] inline bool are_of_one_job(const TimelineHeader& a, const TimelineHeader& b) {
    return a.began_realtime_ns == b.began_realtime_ns && a.size == b.size && a.host_count == b.host_count;
}

/// Totals of a timeline file. The last event of the file contains them. If the writer was killed, this event is
/// missing.
struct TimelineEnd {
    std::uint64_t operations = 0;  ///< number of operations in the file
    std::uint64_t lost = 0;        ///< number of records that were overwritten before the writer read them
};

/// Returns the first event as a line, which ends with a comma.
[[nodiscard]] std::string format_header(const TimelineHeader& header);
/// Returns the last event as a line without a comma.
[[nodiscard]] std::string format_end(const TimelineEnd& end);

/// The content of a timeline file.
struct TimelinePart {
    TimelineHeader header;
    bool has_end = false;
    TimelineEnd end;
    std::vector<std::int32_t> ranks;            ///< the ranks that have rows in the file
    std::vector<TimelineOperation> operations;  ///< the operations in the order of the file
    std::vector<std::string> others;            ///< the lines of steps, scopes (declared activities) and lost records
};

/// Parses a timeline file. Fails with InvalidArgument if the file is damaged. If the writer was killed, the last line
/// may be cut; a cut line is ignored.
[[nodiscard]] Result<TimelinePart> parse_timeline(std::string_view text);

}  // namespace rueda::base
