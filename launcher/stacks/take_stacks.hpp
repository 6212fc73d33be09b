// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/jobs/find_jobs.hpp"
#include "launcher/jobs/job_sample.hpp"

namespace rueda::launcher {

/// A job and the stacks of its ranks' main threads, for the ranks on this host.
struct JobStacks {
    JobSample job;
    /// One text for each of `job.ranks`. A text has several lines: the stack, or the reason why there is none, and what
    /// the kernel says about the thread.
    std::vector<std::string> texts;

    /// Whether the stacks of all ranks were taken.
    [[nodiscard]] bool are_complete() const;
};

/// Asks all ranks at the same time, and waits at most 2.5 s. Fails if the job's shared memory cannot be written.
[[nodiscard]] Result<JobStacks> take_stacks(const Job& job);

}  // namespace rueda::launcher
