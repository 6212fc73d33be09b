// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/shared_memory/step_page.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// The socket between the program of a rank and its parent (ruedarun or a supervisor). It carries notifications
/// (base/launcher_notification.hpp) in both directions. A program that does not use Rueda ignores the socket. No
/// function blocks; if the socket is full, a notification is lost. Threads: only one thread may use an object.
class RankLine {
public:
    /// Opens the socket. Call this before the program starts. The program inherits child_fd() with the same number.
    [[nodiscard]] Status open();
    [[nodiscard]] int child_fd() const { return child_end_.value(); }
    /// Returns the value of the variable base::kLauncherVariable for the program.
    [[nodiscard]] std::string address(int rank, int ranks) const;
    /// Closes child_fd() in this process. Call this after the start of the program, so that only the program has this
    /// end of the socket open.
    void close_child_end() { child_end_.reset(); }

    void notify(std::string_view notification) const;
    /// Returns the training steps that the program counted. Call this after the program has ended.
    [[nodiscard]] base::StepSpan steps() const { return base::read_step_file(steps_.value()); }
    /// Returns the last reason for an abort that the program reported. The text is empty if the program reported no
    /// reason.
    [[nodiscard]] std::string take_abort_reason();
    /// For an elastic job: the descriptor that becomes readable when the program sends something; −1 if the program has
    /// closed its end.
    [[nodiscard]] int fd() const { return has_ended_ ? -1 : own_end_.value(); }
    /// For an elastic job: reads what the program has sent. Returns whether the program waits for a place in the next
    /// generation. If it does, the reason for an abort that it reported is forgotten, because the program goes on.
    [[nodiscard]] bool take_wait();

private:
    void receive();

    std::string abort_reason_;
    bool waits_ = false;
    bool has_ended_ = false;
    base::UniqueFd own_end_;
    base::UniqueFd child_end_;
    base::UniqueFd steps_;
};

}  // namespace rueda::launcher
