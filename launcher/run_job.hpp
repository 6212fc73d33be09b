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
    /// A rank that had run failed, of itself: the same job, started again, may fare better.
    bool may_start_again = false;
    std::chrono::milliseconds duration{0};
    base::StepSpan steps{};  ///< of training, as the ranks have told
};

/// Carries the plan out. Afterwards no process of it is left. Threads: one, and the process must have no other.
[[nodiscard]] JobReport run_job(const LaunchPlan& plan, const Surroundings& surroundings,
                                const std::string& program_file);

}  // namespace rueda::launcher
