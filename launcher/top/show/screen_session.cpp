// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/show/screen_session.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

namespace rueda::launcher {

namespace {

constexpr int kExitOfSignal = 128;

}  // namespace

ScreenSession::ScreenSession(Picture picture) : picture_(std::move(picture)), terminal_(STDIN_FILENO, STDOUT_FILENO) {}

Status ScreenSession::open() {
    RUEDA_RETURN_IF_FAILED(signals_.open({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP}));
    Status entered = terminal_.enter();
    if (!entered.is_ok()) {
        terminal_.leave();
    }
    return entered;
}

void ScreenSession::add_to(base::PollSet& set) {
    set.add(signals_.fd(), POLLIN, [this] { take_signals(); });
    if (terminal_.has_keys()) {
        set.add(terminal_.input(), POLLIN, [this] { read_keys(); });
    }
}

void ScreenSession::draw() {
    const ScreenSize size = terminal_.size();
    if (const std::optional<Screen> screen = picture_(size.columns)) {
        goes_on_ = terminal_.show(render(*screen, size, /*with_colours=*/true)) && goes_on_;
    }
}

void ScreenSession::take_signals() {
    while (const std::optional<signalfd_siginfo> signal = signals_.take()) {
        handle(static_cast<int>(signal->ssi_signo));
    }
}

void ScreenSession::handle(int signal_number) {
    switch (signal_number) {
        case SIGWINCH:
            draw();
            break;
        case SIGTSTP:
            stop_and_resume();
            break;
        case SIGINT:  // users usually end this program with Ctrl-C, so it is no failure
            goes_on_ = false;
            break;
        default:
            exit_status_ = kExitOfSignal + signal_number;
            goes_on_ = false;
            break;
    }
}

/// Handles Ctrl-Z: shows the shell's screen until the shell resumes this program.
void ScreenSession::stop_and_resume() {
    terminal_.leave();
    ::raise(SIGSTOP);
    goes_on_ = terminal_.enter().is_ok() && goes_on_;
    draw();
}

void ScreenSession::read_keys() {
    const std::optional<std::string> keys = terminal_.read_keys();
    goes_on_ = keys && keys->find_first_of("qQ") == std::string::npos && goes_on_;
}

}  // namespace rueda::launcher
