// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs `rueda evaluate` with these arguments, and returns its exit status.
[[nodiscard]] int run_evaluate(std::span<const std::string> arguments);

}  // namespace rueda::launcher
