// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.hpp"
#include "rueda/error.hpp"
#include "rueda/rueda.hpp"

namespace rueda::training {
namespace {

constexpr std::int64_t kBarWidth = 30;  ///< in characters
/// The minimum time between two drawings of the bar. Nobody would see more frequent drawings, and they would cost time
/// if the terminal is connected over a network.
constexpr std::chrono::milliseconds kBarPause{50};
/// Moves to the first column and erases the rest of the line (ECMA-48).
constexpr const char* kEraseLine = "\r\x1b[K";

/// The number of columns of the terminal. A longer line would continue in the next line, which is not erased.
std::size_t columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::int64_t total, std::string_view what)
    : total_(total),
      what_(what),
      prints_(rank() == 0),
      // Standard output alone is not enough: mpirun gives its programs a terminal as standard output even if mpirun's
      // own output goes to a file. So standard error is tested, too.
      visible_(prints_ && ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1) {
    if (total < 0) {
        throw InvalidArgument(fmt::format("progress: the number of steps is {}; expected at least 0", total));
    }
}

Progress::~Progress() { erase(); }

void Progress::erase() {
    if (drawn_) {
        std::fputs(kEraseLine, stdout);
        std::fflush(stdout);
        drawn_ = false;
    }
}

void Progress::step(std::int64_t done, std::string_view note) {
    const auto now = std::chrono::steady_clock::now();
    if (!visible_ || now < next_) {
        return;
    }
    next_ = now + kBarPause;
    std::string text = what_ + (what_.empty() ? "" : " ");
    if (total_ > 0) {
        const auto filled = static_cast<std::size_t>(std::clamp<std::int64_t>(done, 0, total_) * kBarWidth / total_);
        text +=
            fmt::format("[{}{}] {}/{}", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), done, total_);
    } else {
        text += std::to_string(done);
    }
    if (!note.empty()) {
        text.append(" ").append(note);
    }
    // The last column stays empty: some terminals begin a new line after it.
    std::printf("%s%s", kEraseLine, base::shortened(text, columns() - 1).c_str());
    std::fflush(stdout);
    drawn_ = true;
}

void Progress::line(std::string_view text) {
    erase();
    if (prints_) {
        std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
        std::fflush(stdout);
    }
}

void Progress::restart(std::string_view what) {
    erase();
    what_ = what;
    next_ = {};
}

}  // namespace rueda::training
