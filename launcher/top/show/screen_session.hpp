// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "base/network/poll_set.hpp"
#include "base/status.hpp"
#include "launcher/processes/signal_inbox.hpp"
#include "launcher/top/screen.hpp"
#include "launcher/top/show/terminal.hpp"

namespace rueda::launcher {

/// The use of the whole terminal by one program: what the program shows, and the keys and signals that it gets.
/// Threads: one.
class ScreenSession {
public:
    /// Returns the screen to show on a terminal with this number of columns, or nothing if there is none yet.
    using Picture = std::function<std::optional<Screen>(std::size_t columns)>;

    explicit ScreenSession(Picture picture);

    [[nodiscard]] Status open();
    void add_to(base::PollSet& set);
    void draw();
    void leave() { terminal_.leave(); }
    /// False after the user has ended the program, or if the terminal is gone.
    [[nodiscard]] bool goes_on() const { return goes_on_; }
    /// 0, or 128 plus the number of the signal that ended the program.
    [[nodiscard]] int exit_status() const { return exit_status_; }
    /// The signal mask with which child processes start.
    [[nodiscard]] const sigset_t& original_mask() const { return signals_.original_mask(); }

private:
    void take_signals();
    void handle(int signal_number);
    void stop_and_resume();
    void read_keys();

    Picture picture_;
    Terminal terminal_;
    SignalInbox signals_;
    bool goes_on_ = true;
    int exit_status_ = 0;
};

}  // namespace rueda::launcher
