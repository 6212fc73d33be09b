// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs `rueda top`, which shows what the ranks of a job on this host are doing. `arguments` are the words after "top".
/// Returns the exit status.
[[nodiscard]] int run_top(std::span<const std::string> arguments);

}  // namespace rueda::launcher
