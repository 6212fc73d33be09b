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
    char state = '?';  ///< state of the main thread, as in /proc/<pid>/stat
    double cpu_seconds = 0;
    double age_seconds = 0;
    std::uint64_t resident_bytes = 0;
};

/// One rank at one moment.
struct RankSample {
    std::uint32_t member = 0;  ///< the rank's index in the job's shared memory
    std::int32_t rank = -1;
    std::int32_t pid = 0;  ///< the number of the rank's process in this program's process namespace; 0: the process has
                           ///< ended
    base::RankState state = base::RankState::absent;
    std::int64_t step = -1;  ///< the training step that the rank began last; -1: it has reported none
    std::string scope;       ///< the innermost scope (declared activity); empty outside any scope
    std::optional<ProcessSample> process;
};

enum class JobState { running, shutting_down, aborted, ended };

/// The state of a job on this host at one point in time. Texts from the job's memory are cleaned: they contain no
/// control characters.
struct JobSample {
    std::string id;
    std::int64_t time_ns = 0;  ///< time of the sample, in CLOCK_MONOTONIC
    std::string program;       ///< the command line of the first rank on this host
    std::string abort_reason;  ///< why the job was aborted; empty if it was not aborted
    bool was_aborted = false;
    std::vector<RankSample> ranks;  ///< the ranks on this host, in ascending order

    [[nodiscard]] JobState state() const;
    [[nodiscard]] bool has_processes() const;
    /// The age in seconds of the oldest of the ranks' processes.
    [[nodiscard]] double age_seconds() const;
};

/// Returns "running", "shutting down", "aborted" or "ended".
[[nodiscard]] const char* name_of(JobState state);

[[nodiscard]] JobSample take_sample(const Job& job);

/// Returns a reader of the rank's flight recorder, or nothing if the rank has not begun to record.
[[nodiscard]] std::optional<base::RecorderReader> reader_of(const Job& job, const RankSample& rank);

}  // namespace rueda::launcher
