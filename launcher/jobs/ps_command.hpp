// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// Runs `rueda ps`, which lists the jobs of this user on this host. `arguments` are the words after "ps". Returns the
/// exit status.
[[nodiscard]] int run_ps(std::span<const std::string> arguments);

}  // namespace rueda::launcher
