// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace deepfm {

/// Shows the training's progress: a line that changes (only on a terminal), and a line for each epoch.
class Progress {
public:
    /// `visible` must be true on only one rank.
    explicit Progress(bool visible);

    void step(std::int64_t epoch, std::int64_t step, double loss, std::int64_t samples);
    /// Prints a line that is not overwritten.
    void line(const std::string& text) const;

private:
    bool visible_;
    bool terminal_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point next_;  ///< when the line may be drawn again
};

}  // namespace deepfm
