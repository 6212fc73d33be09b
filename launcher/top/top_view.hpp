// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/jobs/job_sample.hpp"
#include "launcher/top/waits.hpp"

namespace rueda::launcher {

/// A job at one moment, with what its ranks have recorded. All lists are in the order of `job.ranks`.
struct TopSample {
    JobSample job;
    std::vector<std::optional<base::RecordedCounters>> counters;  ///< none: the rank does not record (yet)
    std::vector<RecordedRank> recorded;
};

[[nodiscard]] TopSample take_top_sample(const Job& job);

/// What the main thread of a rank is doing at one moment, seen from outside.
enum class Activity {
    in_rueda,       ///< an operation that the rank has announced has not ended
    in_scope,       ///< the program has declared a scope
    runs_outside,   ///< neither, and the main thread has a core, or waits for one
    sleeps_outside  ///< neither, and the main thread sleeps, as it does while it waits for data
};

/// How often each activity was seen in an interval.
struct ActivityCounts {
    std::int64_t in_rueda = 0;
    std::int64_t in_scope = 0;
    std::int64_t runs_outside = 0;
    std::int64_t sleeps_outside = 0;

    void add(Activity activity);
    [[nodiscard]] std::int64_t all() const { return in_rueda + in_scope + runs_outside + sleeps_outside; }
};

/// Looks at all ranks once, and adds what each is doing to its counts, which are in the order of RankSample::member. A
/// rank that has no process, or that does not record, is left out.
void look_at_activities(const Job& job, std::span<const RankSample> ranks, std::vector<ActivityCounts>& counts);

/// A row of `rueda top`. A value is missing if the rank does not record, or has not reported a step.
struct RankRow {
    std::int32_t rank = -1;
    std::int32_t pid = 0;
    std::string process;  ///< "running", "sleeping", "stopped by a signal", …; "gone" if there is none
    std::int64_t step = -1;
    std::optional<double> step_seconds;     ///< of the steps in the interval, else of the last one before it
    std::optional<double> in_step_seconds;  ///< since the last step began
    std::optional<double> waiting_share;
    std::vector<Wait> waits;  ///< the longest first
    std::optional<double> operations_per_second;
    std::optional<double> batches_per_second;
    std::optional<double> bytes_per_second;
    std::optional<double> cpu_share;  ///< 1: one core
    std::uint64_t resident_bytes = 0;
    std::string scope;
    std::string pending;  ///< the oldest operation that is not called, if it waits long: "allreduce 'loss' for 12 s"
    /// The part of the interval in which it slept outside of Rueda and outside of declared scopes.
    std::optional<double> sleeps_outside_share;
    bool is_straggler = false;
    bool seems_bound_by_input = false;
};

/// What `rueda top` shows: a job during an interval.
struct TopView {
    JobSample job;  ///< at the end of the interval
    double interval_seconds = 0;
    std::vector<RankRow> rows;
};

/// Compares two samples. `counts` are in the order of RankSample::member. They may be empty: then nothing is said about
/// the input. Pure.
[[nodiscard]] TopView compare(const TopSample& before, const TopSample& after, std::span<const ActivityCounts> counts);

}  // namespace rueda::launcher
