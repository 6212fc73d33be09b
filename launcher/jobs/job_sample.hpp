// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/shared_memory/control_block.hpp"
#include "launcher/jobs/find_jobs.hpp"

namespace rueda::launcher {

/// Facts from /proc about the process of a rank.
struct ProcessSample {
    char state = '?';  ///< of its main thread, as in /proc/<pid>/stat
    double cpu_seconds = 0;
    double age_seconds = 0;
    std::uint64_t resident_bytes = 0;
};

/// One rank at one moment.
struct RankSample {
    std::uint32_t member = 0;  ///< its place in the memory of the job
    std::int32_t rank = -1;
    std::int32_t pid = 0;  ///< in the process namespace of this program; 0: the process does not exist any more
    base::RankState state = base::RankState::absent;
    std::int64_t step = -1;  ///< the step that it began last; -1: it has not reported any
    std::string scope;       ///< the innermost declared scope; "" outside
    std::optional<ProcessSample> process;
};

enum class JobState { running, shutting_down, aborted, ended };

/// A job on this host at one moment. Texts from its memory contain no control characters.
struct JobSample {
    std::string id;
    std::int64_t time_ns = 0;  ///< CLOCK_MONOTONIC
    std::string program;       ///< the command line of its first rank here
    std::string abort_reason;  ///< "" if it was not aborted
    bool was_aborted = false;
    std::vector<RankSample> ranks;  ///< the ranks on this host, in ascending order

    [[nodiscard]] JobState state() const;
    [[nodiscard]] bool has_processes() const;
    /// The age of the oldest process of a rank.
    [[nodiscard]] double age_seconds() const;
};

/// "running", "shutting down", "aborted", "ended".
[[nodiscard]] const char* name_of(JobState state);

[[nodiscard]] JobSample take_sample(const Job& job);

/// Reads what the rank records. Returns nothing if it does not record (yet).
[[nodiscard]] std::optional<base::RecorderReader> reader_of(const Job& job, const RankSample& rank);

}  // namespace rueda::launcher
