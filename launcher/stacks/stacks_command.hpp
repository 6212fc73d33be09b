// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs `rueda stacks`, which prints the stacks of the main threads of all ranks of a job on this host. `arguments` are
/// the words after "stacks". Returns the exit status.
[[nodiscard]] int run_stacks(std::span<const std::string> arguments);

}  // namespace rueda::launcher
