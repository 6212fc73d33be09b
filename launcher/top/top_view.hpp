// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/activity/look.hpp"
#include "launcher/activity/time_outside.hpp"
#include "launcher/activity/waits.hpp"
#include "launcher/gpus/gpus.hpp"
#include "launcher/jobs/job_sample.hpp"

namespace rueda::launcher {

/// The state of a job at one point in time, and what its ranks recorded. All lists are in the order of `job.ranks`.
struct TopSample {
    JobSample job;
    std::vector<std::optional<base::RecordedCounters>> counters;  ///< the counters of each rank; empty if the rank has
                                                                  ///< no flight recorder, or does not record yet
    std::vector<RecordedRank> recorded;
};

[[nodiscard]] TopSample take_top_sample(const Job& job);

/// A GPU on which a rank computes. Other processes may use it too.
struct RankGpu {
    std::uint32_t index = 0;
    std::optional<double> utilization;  ///< from 0 to 1
    std::optional<std::uint64_t> used_bytes;
    std::optional<std::uint64_t> total_bytes;
};

/// A row of `rueda top`. A value is missing if the rank does not record, or has not reported a step.
struct RankRow {
    std::string host;  ///< the name of the rank's host; empty if only this host is shown
    std::int32_t rank = -1;
    std::int32_t pid = 0;
    std::string process;  ///< the state of the process: "running", "sleeping", "stopped by a signal", …; "gone" if the
                          ///< process has ended
    std::int64_t step = -1;
    std::optional<double> step_seconds;     ///< average time of the steps that ended in the interval; if none ended,
                                            ///< the time of the last step before the interval
    std::optional<double> in_step_seconds;  ///< time since the rank began its last step
    std::optional<double> waiting_share;
    std::vector<Wait> waits;  ///< the longest first
    std::optional<double> operations_per_second;
    std::optional<double> batches_per_second;
    std::optional<double> bytes_per_second;
    std::optional<double> cpu_share;  ///< the CPU time of the rank's process divided by the length of the interval; 1
                                      ///< means that one core was busy all the time
    std::uint64_t resident_bytes = 0;
    std::string scope;
    std::string pending;  ///< the oldest pending operation, if it has waited long: "allreduce 'loss' for 12 s"
    std::optional<TimeOutside> outside;  ///< the time that the rank was neither in Rueda nor in a declared scope
    /// A lower limit for the part of the interval in which the rank did nothing: it was neither in Rueda nor in a
    /// declared scope, and none of its threads and GPUs ran.
    std::optional<double> idle_share;
    std::vector<RankGpu> gpus;
    bool is_straggler = false;
    bool seems_bound_by_input = false;
    bool waits_for_own_threads = false;
};

/// The data that `rueda top` shows: a job during an interval.
struct TopView {
    JobSample job;  ///< the job at the end of the interval
    double interval_seconds = 0;
    bool has_gpus = false;  ///< whether this host has GPUs
    std::vector<RankRow> rows;
    std::vector<std::string> problems;  ///< for each host that could not be shown, the reason
};

/// Compares two samples. `looks` is indexed by RankSample::member. If `looks` is empty, the view says nothing about
/// waits for input. `gpus` contains the GPUs of this host. Pure function.
[[nodiscard]] TopView compare(const TopSample& before, const TopSample& after, std::span<const std::vector<Look>> looks,
                              std::span<const GpuUse> gpus = {});

/// Returns the average utilization of the rank's GPUs, from 0 to 1. GPUs without this value are left out.
[[nodiscard]] std::optional<double> gpu_utilization(const RankRow& row);

}  // namespace rueda::launcher
