// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Carries out the plan, and does so again after a rank has failed, as often as `options` allow. Prints at the end what
/// the failed attempts cost. Returns the exit status of the last attempt. Threads: one, and the process must have no
/// other.
[[nodiscard]] int run_attempts(const Options& options, Surroundings surroundings, LaunchPlan plan,
                               const std::string& program_file);

}  // namespace rueda::launcher
