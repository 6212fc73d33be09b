// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <limits>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::base {

/// The first and the last training step that a program reported.
struct StepSpan {
    std::int64_t first = -1;  ///< −1: it has told none
    std::int64_t last = -1;

    [[nodiscard]] bool is_known() const {
        return first >= 0 && last >= first && last < std::numeric_limits<std::int64_t>::max();
    }
};

/// A file in memory in which a program stores its current training step. The process that started the program can then
/// read the step after the program ended, even if it was killed by SIGKILL. The program maps the file; the other
/// process reads it with system calls, so a program that damages the file harms no other process.
[[nodiscard]] Result<UniqueFd> make_step_file();
/// Reads the file after the program has ended. The result is "unknown" if Rueda did not write the content.
[[nodiscard]] StepSpan read_step_file(int fd);

/// The side of the training program. Threads: one at a time.
class StepPage {
public:
    StepPage() = default;
    StepPage(const StepPage&) = delete;
    StepPage& operator=(const StepPage&) = delete;
    ~StepPage();

    /// Maps the step file. If `fd` is not a step file, or cannot be mapped, the page stays closed.
    void open(int fd);
    [[nodiscard]] bool is_open() const { return span_ != nullptr; }
    void begin(std::int64_t step);

private:
    StepSpan* span_ = nullptr;
};

}  // namespace rueda::base
