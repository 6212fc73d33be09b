// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "launcher/stacks/take_stacks.hpp"

namespace rueda::launcher {

/// Formats the text that `rueda stacks` prints. Pure.
[[nodiscard]] std::string describe_stacks(const JobStacks& stacks);

/// The same for programs, in JSON. Pure.
[[nodiscard]] std::string stacks_as_json(const JobStacks& stacks);

}  // namespace rueda::launcher
