// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/jobs/find_jobs.hpp"

namespace rueda::launcher {

/// What ruedarun says about a job on several hosts: in a variable of the ranks (kJobVariable in plan.hpp) or, for an
/// elastic job, in a JobNote.
struct LaunchedJob {
    std::string token;               ///< this token is the same on all hosts of the job, and belongs to no other job
    std::vector<std::string> hosts;  ///< at least two
};

/// Reads the JobNote of the parent of one of the job's processes, or kJobVariable from the environment of the process.
/// Returns nothing if ruedarun has not started the job, or if the job has one host.
[[nodiscard]] std::optional<LaunchedJob> launched_job(const Job& job);

/// Reads a text of the form that describe_job() returns. Pure.
[[nodiscard]] std::optional<LaunchedJob> parse_launched_job(std::string_view text);

/// Looks for kJobVariable in a text that has the form of /proc/<pid>/environ, and returns the job that it describes.
/// Pure.
[[nodiscard]] std::optional<LaunchedJob> read_launched_job(std::string_view environment);

/// This mark, followed by a job's token, names the job on all its hosts.
inline constexpr std::string_view kTokenMark = "token:";

/// Takes the job that the user means out of the list. `wanted` is one of three texts: the job's id; kTokenMark followed
/// by the job's token; or the number of one of the job's processes. If `wanted` is "", the list must have exactly one
/// job. Fails with InvalidArgument; the message says what the user can do.
[[nodiscard]] Result<Job> choose_job(JobList list, const std::string& wanted);

}  // namespace rueda::launcher
