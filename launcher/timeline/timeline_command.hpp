// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

namespace rueda::launcher {

/// The exit status of `rueda timeline`.
enum class TimelineExit : int {
    written = 0,
    failed = 2,  ///< wrong arguments, or files that cannot be read or written
};

/// Runs `rueda timeline` with these arguments. Returns the exit status.
[[nodiscard]] int run_timeline(std::vector<std::string> arguments);

}  // namespace rueda::launcher
