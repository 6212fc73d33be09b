// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/jobs/find_jobs.hpp"
#include "launcher/jobs/job_sample.hpp"

namespace rueda::launcher {

/// Returns the table that `rueda ps` prints. Pure function.
[[nodiscard]] std::string describe_jobs(std::span<const JobSample> jobs, std::span<const UnreadableJob> unreadable);

/// Returns the facts of the table as JSON, for programs. Pure function.
[[nodiscard]] std::string jobs_as_json(std::span<const JobSample> jobs, std::span<const UnreadableJob> unreadable);

/// Formats numbers: {0,1,2,3,5} gives "0-3,5", {} gives "-".
[[nodiscard]] std::string format_numbers(std::vector<std::int32_t> numbers);

/// Formats an age: 7.2 gives "7s", 133 gives "2m13s", 7384 gives "2h03m", 180000 gives "2d02h".
[[nodiscard]] std::string format_age(double seconds);

/// Returns the training steps that the ranks began last: "118", or "117-119" if they differ, or "-" if no rank has
/// reported one.
[[nodiscard]] std::string format_steps(const JobSample& job);

}  // namespace rueda::launcher
