// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace deepfm {
namespace {
/// The minimum time between two drawings of the line. Nobody would see more frequent drawings, and they would cost time
/// if the terminal is connected over a network.
constexpr std::chrono::milliseconds kPause{50};
/// Moves to the first column and erases the rest of the line (ECMA-48).
constexpr const char* kClearLine = "\r\x1b[K";
}  // namespace

Progress::Progress(bool visible)
    : visible_(visible),
      // The standard error stream is checked, too: mpirun gives its programs a terminal as standard output even if
      // mpirun's own output goes to a file.
      terminal_(visible && ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1) {}

void Progress::step(std::int64_t epoch, std::int64_t step, double loss, std::int64_t samples) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now < next_) {
        return;
    }
    next_ = now + kPause;
    const std::chrono::duration<double> seconds = now - start_;
    std::printf("%sepoch %lld, step %lld: loss %.4f, %.0f samples/s", kClearLine, static_cast<long long>(epoch) + 1,
                static_cast<long long>(step) + 1, loss, static_cast<double>(samples) / seconds.count());
    std::fflush(stdout);
}

void Progress::line(const std::string& text) const {
    if (visible_) {
        std::printf("%s%s\n", terminal_ ? kClearLine : "", text.c_str());
        std::fflush(stdout);
    }
}

}  // namespace deepfm
