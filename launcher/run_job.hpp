// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "launcher/plan.hpp"

namespace rueda::launcher {

/// Carries the plan out and returns the exit status of the job. Afterwards no process of it is left. Threads: one, and
/// the process must have no other.
[[nodiscard]] int run_job(const LaunchPlan& plan, const Surroundings& surroundings, const std::string& program_file);

}  // namespace rueda::launcher
