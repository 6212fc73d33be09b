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
/// carries notifications (base/launcher_notification.hpp) in both directions. A program that does not use Rueda ignores
/// the socket. No function blocks; if the socket is full, the notification is lost. Threads: one.
class RankLine {
public:
    /// Call this before the program is started. The program inherits child_fd() with the same number.
    [[nodiscard]] Status open();
    [[nodiscard]] int child_fd() const { return child_end_.value(); }
    /// The value of base::kLauncherVariable for the program.
    [[nodiscard]] std::string address(int rank, int ranks) const;
    /// Call this after the start, so that only the program has this end of the socket.
    void close_child_end() { child_end_.reset(); }

    void notify(std::string_view notification) const;
    /// The training steps that the program counted. Call this after the program's end.
    [[nodiscard]] base::StepSpan steps() const { return base::read_step_file(steps_.value()); }
    /// The last reason that the program reported for an abort of the job; empty if it reported none.
    [[nodiscard]] std::string take_abort_reason() const;

private:
    base::UniqueFd own_end_;
    base::UniqueFd child_end_;
    base::UniqueFd steps_;
};

}  // namespace rueda::launcher
