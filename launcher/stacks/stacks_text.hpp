// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "launcher/stacks/take_stacks.hpp"

namespace rueda::launcher {

/// Returns the text that `rueda stacks` prints. Pure function.
[[nodiscard]] std::string describe_stacks(const JobStacks& stacks);

/// Returns the stacks as JSON, for programs. Pure function.
[[nodiscard]] std::string stacks_as_json(const JobStacks& stacks);

}  // namespace rueda::launcher
