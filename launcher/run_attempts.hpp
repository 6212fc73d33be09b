// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Carries the plan out, and again after a rank has failed, as often as `options` allow it. What the failed attempts
/// cost is said at the end. Returns the exit status of the last one. Threads: one, and the process must have no other.
[[nodiscard]] int run_attempts(const Options& options, Surroundings surroundings, LaunchPlan plan,
                               const std::string& program_file);

}  // namespace rueda::launcher
