// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launcher/jobs/job_sample.hpp"

namespace rueda::launcher {

/// What a rank is doing at one moment, as another process sees it.
enum class Activity {
    in_rueda,             ///< the rank has announced an operation, which has not ended
    in_scope,             ///< the program has declared an activity (a scope)
    runs_outside,         ///< no operation and no declared activity; the main thread runs on a core or waits for one
    threads_run_outside,  ///< no operation and no declared activity; the main thread sleeps, but another thread runs
    sleeps_outside        ///< no operation and no declared activity; all threads sleep, for example while the program
                          ///< waits for data
};

struct Look {
    std::int64_t time_ns = 0;  ///< when the rank was looked at, in CLOCK_MONOTONIC
    Activity activity = Activity::in_rueda;
};

/// Looks at all ranks once. For each rank, appends an entry to the rank's list in `looks`; the entry says what the rank
/// is doing. `looks` is indexed like `ranks`. Ranks without a process or without a flight recorder are left out.
void look_at_activities(const Job& job, std::span<const RankSample> ranks, std::vector<std::vector<Look>>& looks);

}  // namespace rueda::launcher
