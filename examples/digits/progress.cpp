// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "progress.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace digits {
namespace {
constexpr std::int64_t kBarWidth = 30;  ///< in characters
/// The minimum time between two drawings of the bar. Nobody would see more frequent drawings, and they would cost time
/// if the terminal is connected over a network.
constexpr std::chrono::milliseconds kPause{50};
/// Moves to the first column and erases the rest of the line (ECMA-48).
constexpr const char* kClearLine = "\r\x1b[K";
}  // namespace

Progress::Progress(bool visible, std::int64_t epochs, std::int64_t steps)
    : visible_(visible),
      // Standard error is tested, too: mpirun gives its programs a terminal as standard output even if mpirun's own
      // output goes to a file.
      terminal_(visible && ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1),
      epochs_(epochs),
      steps_(steps) {}

void Progress::step(std::int64_t epoch, std::int64_t step, double loss) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now < next_) {
        return;
    }
    next_ = now + kPause;
    const auto done = static_cast<std::size_t>((step + 1) * kBarWidth / steps_);
    const std::string bar = std::string(done, '#') + std::string(kBarWidth - done, '.');
    std::printf("%sepoch %lld/%lld [%s] loss %.4f", kClearLine, static_cast<long long>(epoch + 1),
                static_cast<long long>(epochs_), bar.c_str(), loss);
    std::fflush(stdout);
}

void Progress::epoch(std::int64_t epoch, double loss, double learning_rate, double accuracy) const {
    if (!visible_) {
        return;
    }
    std::printf("%sepoch %lld/%lld  loss %.4f  learning rate %.4g  accuracy %.4f\n", terminal_ ? kClearLine : "",
                static_cast<long long>(epoch + 1), static_cast<long long>(epochs_), loss, learning_rate, accuracy);
    std::fflush(stdout);
}

void Progress::line(const std::string& text) const {
    if (visible_) {
        std::printf("%s\n", text.c_str());
        std::fflush(stdout);
    }
}

}  // namespace digits
