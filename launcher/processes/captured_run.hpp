// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

struct CapturedRun {
    std::string text;  ///< standard output and error together, in the order of arrival
    int wait_status = 0;
    bool was_started = false;  ///< false if the total time limit passed before the program was started
    bool in_time = false;      ///< false if the program was killed; `text` then has what the program had written
    std::chrono::system_clock::time_point begin;
    std::chrono::system_clock::time_point end;
};

struct CaptureTimes {
    std::chrono::milliseconds each;
    /// the time limit for all programs together; when it has passed, running programs are ended, and no other programs
    /// are started
    std::chrono::milliseconds all;
};

/// Runs programs that read no input and write little, at most `at_once` at the same time. Ends each program when its
/// time limit has passed. The results are in the order of the commands. Threads: the calling process must have only one
/// thread.
[[nodiscard]] Result<std::vector<CapturedRun>> run_all_captured(const std::vector<std::vector<std::string>>& commands,
                                                                const Environment& environment, CaptureTimes times,
                                                                std::size_t at_once);

/// Runs one program, with the same rules as run_all_captured().
[[nodiscard]] Result<CapturedRun> run_captured(const std::vector<std::string>& words, const Environment& environment,
                                               std::chrono::milliseconds time);

}  // namespace rueda::launcher
