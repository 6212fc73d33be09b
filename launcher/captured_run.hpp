// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

struct CapturedRun {
    std::string text;  ///< standard output and error together, as they came
    int wait_status = 0;
    bool in_time = false;  ///< false: it was killed, and `text` is what it had written until then
};

/// Runs a program that asks nobody and does not write much, and ends it when the time is over. Threads: the calling
/// process must have only one.
[[nodiscard]] Result<CapturedRun> run_captured(const std::vector<std::string>& words,
                                               const std::map<std::string, std::string>& environment,
                                               std::chrono::milliseconds time);

}  // namespace rueda::launcher
