// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "base/timeline/timeline_part.hpp"

namespace rueda::launcher {

/// The text of a timeline's file, and facts about it to print for the user.
struct MergedTimeline {
    std::string text;
    std::size_t ranks = 0;
    base::TimelineEnd end;
};

/// Makes a timeline of the files of the flight recorder. There must be at least one file. The clocks of several hosts
/// are aligned by their CLOCK_REALTIME.
[[nodiscard]] MergedTimeline timeline_of(const std::vector<base::Recording>& recordings);

}  // namespace rueda::launcher
