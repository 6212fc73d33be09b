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
    bool was_started = false;  ///< false: the time of all was over before its turn
    bool in_time = false;      ///< false: it was killed, and `text` is what it had written until then
    std::chrono::system_clock::time_point begin;
    std::chrono::system_clock::time_point end;
};

struct CaptureTimes {
    std::chrono::milliseconds each;
    std::chrono::milliseconds all;  ///< what has not ended by then is ended, what has not begun does not begin
};

/// Runs programs that ask nobody and do not write much, up to `at_once` at the same time, and ends each when its time
/// is over. The results are in the order of the commands. Threads: the calling process must have only one.
[[nodiscard]] Result<std::vector<CapturedRun>> run_all_captured(const std::vector<std::vector<std::string>>& commands,
                                                                const std::map<std::string, std::string>& environment,
                                                                CaptureTimes times, std::size_t at_once);

/// The same for one.
[[nodiscard]] Result<CapturedRun> run_captured(const std::vector<std::string>& words,
                                               const std::map<std::string, std::string>& environment,
                                               std::chrono::milliseconds time);

}  // namespace rueda::launcher
