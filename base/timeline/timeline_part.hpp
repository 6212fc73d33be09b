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

/// The first event of a timeline's file contains these facts about the file.
struct TimelineHeader {
    std::string host;
    std::int32_t host_index = 0;  ///< hosts are in the order of their lowest ranks
    std::int32_t host_count = 1;  ///< of the job; a file of a job with several hosts is a part of a timeline
    std::int32_t size = 1;        ///< the number of ranks of the job
    bool marks_cycles = false;
    bool is_merged = false;  ///< `rueda timeline` has written it, from the files of all hosts that it got
    /// Time 0 of the timeline in CLOCK_REALTIME of rank 0's host. It is the same in all parts of a job.
    std::int64_t began_realtime_ns = 0;
    /// This offset was added to CLOCK_MONOTONIC of the host to get the job's clock. It may be wrong by the uncertainty.
    std::int64_t clock_offset_ns = 0;
    std::int64_t clock_uncertainty_ns = 0;
};

/// The last event of a timeline's file contains these totals. If the writer was killed, the file has no such event.
struct TimelineEnd {
    std::uint64_t operations = 0;  ///< in the file
    std::uint64_t lost = 0;        ///< records that were overwritten before they were read
};

/// A line that ends with a comma.
[[nodiscard]] std::string format_header(const TimelineHeader& header);
/// The last line, without a comma.
[[nodiscard]] std::string format_end(const TimelineEnd& end);

/// A file of a timeline, as it was read.
struct TimelinePart {
    TimelineHeader header;
    bool has_end = false;
    TimelineEnd end;
    std::vector<std::int32_t> ranks;            ///< those whose rows the file names
    std::vector<TimelineOperation> operations;  ///< in the order of the file
    std::vector<std::string> others;            ///< the lines of steps, scopes and losses
};

/// Reads a file of a timeline. Fails with InvalidArgument if it is damaged. The last line of a file whose writer was
/// killed may be cut off, and is left out.
[[nodiscard]] Result<TimelinePart> parse_timeline(std::string_view text);

}  // namespace rueda::base
