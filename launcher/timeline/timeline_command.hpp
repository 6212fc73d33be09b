// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>

namespace rueda::launcher {

/// The exit status of `rueda timeline`.
enum class TimelineExit : int {
    written = 0,
    failed = 2,  ///< a file cannot be read or written
};

/// Runs `rueda timeline` with these arguments. Returns the exit status.
[[nodiscard]] int run_timeline(std::span<const std::string> arguments);

}  // namespace rueda::launcher
