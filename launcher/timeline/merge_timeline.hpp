// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "base/status.hpp"
#include "base/timeline/timeline_part.hpp"

namespace rueda::launcher {

/// The text of a timeline's file, and what a person wants to know about it.
struct MergedTimeline {
    std::string text;
    std::size_t ranks = 0;
    base::TimelineEnd end;
};

/// Makes one timeline of the parts of a job. The operations are matched over all hosts. Fails with InvalidArgument if
/// the parts are of different jobs, or if two are of the same host.
[[nodiscard]] Result<MergedTimeline> merge_parts(std::vector<base::TimelinePart> parts);

/// Makes a timeline of the files of the flight recorder, at least one. Hosts are aligned by their CLOCK_REALTIME.
[[nodiscard]] MergedTimeline timeline_of(const std::vector<base::Recording>& recordings);

}  // namespace rueda::launcher
