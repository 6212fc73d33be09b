// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launcher/jobs/job_sample.hpp"

namespace rueda::launcher {

/// A description of what a rank is doing at one moment, made by another process.
enum class Activity {
    in_rueda,             ///< an operation that the rank has announced has not ended
    in_scope,             ///< the program has declared a scope
    runs_outside,         ///< neither, and the main thread has a core, or waits for one
    threads_run_outside,  ///< neither, and the main thread sleeps, but another thread of the process runs
    sleeps_outside        ///< neither, and no thread runs, as it is while a program waits for data or for a device
};

struct Look {
    std::int64_t time_ns = 0;  ///< CLOCK_MONOTONIC
    Activity activity = Activity::in_rueda;
};

/// Looks at all ranks once, and appends what each is doing to its looks, which are in the order of RankSample::member.
/// A rank that has no process, or that does not record, is left out.
void look_at_activities(const Job& job, std::span<const RankSample> ranks, std::vector<std::vector<Look>>& looks);

}  // namespace rueda::launcher
