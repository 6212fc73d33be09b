// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// What `--dry-run` prints: the plan as shell commands that can be pasted.
[[nodiscard]] std::string describe_as_shell(const LaunchPlan& plan);

/// What `--explain` prints before that: the reasons, as comments of the shell.
[[nodiscard]] std::string describe_reasons(const LaunchPlan& plan);

}  // namespace rueda::launcher
