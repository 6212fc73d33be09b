// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <limits>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::base {

/// The training steps that a program has begun, from the first that it told of to the last.
struct StepSpan {
    std::int64_t first = -1;  ///< −1: it has told of none
    std::int64_t last = -1;

    [[nodiscard]] bool is_known() const {
        return first >= 0 && last >= first && last < std::numeric_limits<std::int64_t>::max();
    }
};

/// A file in memory in which a program says how far it is, so that who has started it knows that after any end, also by
/// SIGKILL. The program maps it; the other side reads it as a file, so that a program that damages it harms nobody.
[[nodiscard]] Result<UniqueFd> make_step_file();
/// What stands there: of a program that has ended. Unknown for what no program of ours has written.
[[nodiscard]] StepSpan read_step_file(int fd);

/// The program's side. Threads: one at a time.
class StepPage {
public:
    StepPage() = default;
    StepPage(const StepPage&) = delete;
    StepPage& operator=(const StepPage&) = delete;
    ~StepPage();

    /// Where `fd` is no step file, or cannot be mapped, the page stays closed.
    void open(int fd);
    [[nodiscard]] bool is_open() const { return span_ != nullptr; }
    void begin(std::int64_t step);

private:
    StepSpan* span_ = nullptr;
};

}  // namespace rueda::base
