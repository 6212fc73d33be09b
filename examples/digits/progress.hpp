// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace digits {

/// Shows the training's progress: a moving bar (only on a terminal), and a line for each epoch.
class Progress {
public:
    /// `visible` must be true on only one rank. `steps` is the number of steps in an epoch.
    Progress(bool visible, std::int64_t epochs, std::int64_t steps);

    void step(std::int64_t epoch, std::int64_t step, double loss);
    void epoch(std::int64_t epoch, double loss, double learning_rate, double accuracy) const;
    void line(const std::string& text) const;

private:
    bool visible_;
    bool terminal_;
    std::int64_t epochs_;
    std::int64_t steps_;
    std::chrono::steady_clock::time_point next_;  ///< when the bar may be drawn again
};

}  // namespace digits
