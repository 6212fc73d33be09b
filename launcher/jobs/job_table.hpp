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

/// The table that `rueda ps` prints. Pure.
[[nodiscard]] std::string describe_jobs(std::span<const JobSample> jobs, std::span<const UnreadableJob> unreadable);

/// The same for programs, in JSON. Pure.
[[nodiscard]] std::string jobs_as_json(std::span<const JobSample> jobs, std::span<const UnreadableJob> unreadable);

/// {0,1,2,3,5} → "0-3,5"; {} → "-".
[[nodiscard]] std::string format_numbers(std::vector<std::int32_t> numbers);

/// 7.2 → "7s", 133 → "2m13s", 7384 → "2h03m", 180000 → "2d02h".
[[nodiscard]] std::string format_age(double seconds);

/// The steps that the ranks began last: "118", "117-119" if they differ, "-" if no rank has reported any.
[[nodiscard]] std::string format_steps(const JobSample& job);

}  // namespace rueda::launcher
