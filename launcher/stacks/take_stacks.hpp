// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/jobs/find_jobs.hpp"
#include "launcher/jobs/job_sample.hpp"

namespace rueda::launcher {

/// A job, and the stacks of the main threads of its ranks on this host.
struct JobStacks {
    JobSample job;
    /// In the order of `job.ranks`. Several lines: the stack, or the reason why there is none, and what the kernel says
    /// about the thread.
    std::vector<std::string> texts;

    /// Whether every rank has a stack.
    [[nodiscard]] bool are_complete() const;
};

/// Asks all ranks at once, and waits for 2.5 s at most. Fails if the memory of the job cannot be written.
[[nodiscard]] Result<JobStacks> take_stacks(const Job& job);

}  // namespace rueda::launcher
