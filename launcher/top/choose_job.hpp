// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "launcher/jobs/find_jobs.hpp"

namespace rueda::launcher {

/// Takes the job that the user means out of the list: the one with this id, or the one to which this process belongs.
/// If `wanted` is "", the list must have exactly one job. Fails with InvalidArgument; the message says what to do.
[[nodiscard]] Result<Job> choose_job(JobList list, const std::string& wanted);

}  // namespace rueda::launcher
