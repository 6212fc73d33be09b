// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "base/shared_memory/step_page.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// How a job ended.
struct JobReport {
    int exit_status = 0;
    /// Whether a rank failed by itself after its start. If so, another attempt may succeed.
    bool may_start_again = false;
    std::chrono::milliseconds duration{0};
    base::StepSpan steps{};  ///< the training steps that the ranks counted
};

/// Runs the plan's job once. When the function returns, no process of the job is left. Threads: the calling process
/// must have only one thread.
[[nodiscard]] JobReport run_job(const LaunchPlan& plan, const Surroundings& surroundings,
                                const std::string& program_file);

}  // namespace rueda::launcher
