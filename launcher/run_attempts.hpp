// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Runs the job. If a rank fails, runs the job again, as often as `options` allow. At the end, prints how much time and
/// how many steps the failed attempts cost. Returns the exit status of the last attempt. Threads: the calling process
/// must have only one thread.
[[nodiscard]] int run_attempts(const Options& options, Surroundings surroundings, LaunchPlan plan,
                               const std::string& program_file);

}  // namespace rueda::launcher
