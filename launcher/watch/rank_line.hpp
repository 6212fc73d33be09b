// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/shared_memory/step_page.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// The socket between a program that is a rank and the process that started it: ruedarun itself, or a supervisor. It
/// carries notifications (base/launcher_notification.hpp) both ways. A program that does not use Rueda ignores it. No
/// function blocks; a notification that finds the socket full is lost. Threads: one.
class RankLine {
public:
    /// To be called before the program is started. The program inherits child_fd() under the same number.
    [[nodiscard]] Status open();
    [[nodiscard]] int child_fd() const { return child_end_.value(); }
    /// The value of base::kLauncherVariable for the program.
    [[nodiscard]] std::string address(int rank, int ranks) const;
    /// To be called after the start, so that only the program has this end.
    void close_child_end() { child_end_.reset(); }

    void notify(std::string_view notification) const;
    /// The training steps that the program counted. To be called after its end.
    [[nodiscard]] base::StepSpan steps() const { return base::read_step_file(steps_.value()); }
    /// The last reason that the program gave for an abort of the job; "" if it gave none.
    [[nodiscard]] std::string take_abort_reason() const;

private:
    base::UniqueFd own_end_;
    base::UniqueFd child_end_;
    base::UniqueFd steps_;
};

}  // namespace rueda::launcher
