// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/shared_memory/step_page.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// The socket between a program that is a rank and the process that has started it: ruedarun itself, or a supervisor.
/// It carries words of base/launcher_notification.hpp, both ways. A program that does not use Rueda leaves it alone.
/// Nothing blocks; what the program does not read in time is lost. Threads: one.
class RankLine {
public:
    /// Before the program is started. The program inherits child_fd() under the same number.
    [[nodiscard]] Status open();
    [[nodiscard]] int child_fd() const { return child_end_.value(); }
    /// For base::kLauncherVariable.
    [[nodiscard]] std::string address(int rank, int ranks) const;
    /// After the start: the program alone has that end.
    void close_child_end() { child_end_.reset(); }

    void tell(std::string_view encoded_word) const;
    /// The training steps that the program has told of; after its end.
    [[nodiscard]] base::StepSpan steps() const { return base::read_step_file(steps_.value()); }
    /// What the program has said last of why the job was aborted; "" if it has not.
    [[nodiscard]] std::string take_abort_reason() const;

private:
    base::UniqueFd own_end_;
    base::UniqueFd child_end_;
    base::UniqueFd steps_;
};

}  // namespace rueda::launcher
