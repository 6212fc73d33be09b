// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// The plan as shell commands that can be pasted, for `--dry-run`.
[[nodiscard]] std::string describe_as_shell(const LaunchPlan& plan);

/// The reasons as shell comments, which `--explain` prints before the commands.
[[nodiscard]] std::string describe_reasons(const LaunchPlan& plan);

}  // namespace rueda::launcher
