// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <limits>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::base {

/// The first and the last training step that a program reported (by begin_step()).
struct StepSpan {
    std::int64_t first = -1;  ///< −1: the program has reported no step
    std::int64_t last = -1;

    [[nodiscard]] bool is_known() const {
        return first >= 0 && last >= first && last < std::numeric_limits<std::int64_t>::max();
    }
};

/// Creates a file in memory, in which a training program stores its current step. The process that started the program
/// can read the step after the program has ended, even if it was killed by SIGKILL. The program maps the file. The
/// other process reads it with system calls, so a program that damages the file harms no other process.
[[nodiscard]] Result<UniqueFd> make_step_file();
/// Reads the step file after the program has ended. If the content was not written by Rueda, the result is as if no
/// step was reported.
[[nodiscard]] StepSpan read_step_file(int fd);

/// Stores the current step in the step file. This class runs in the training program. Threads: any thread, but only one
/// at a time.
class StepPage {
public:
    StepPage() = default;
    StepPage(const StepPage&) = delete;
    StepPage& operator=(const StepPage&) = delete;
    ~StepPage();

    /// Maps the step file. If `fd` is not a step file, or if the file cannot be mapped, this object stays closed.
    void open(int fd);
    [[nodiscard]] bool is_open() const { return span_ != nullptr; }
    void begin(std::int64_t step);

private:
    StepSpan* span_ = nullptr;
};

}  // namespace rueda::base
