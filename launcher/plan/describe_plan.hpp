// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Describes the plan as shell commands that a user can paste. `--dry-run` prints them.
[[nodiscard]] std::string describe_as_shell(const LaunchPlan& plan);

/// Describes the reasons for the plan as shell comments. `--explain` prints them before the commands.
[[nodiscard]] std::string describe_reasons(const LaunchPlan& plan);

}  // namespace rueda::launcher
