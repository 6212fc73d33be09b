// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// A progress bar on the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "rueda/rueda.h"

namespace rueda::training {

/// Shows how far a loop has come, in one line of the terminal that is drawn again and again:
///
///     training [#########.....................] 31/100 loss 0.1234
///
/// The bar is shown on rank 0 only, and only if standard output and standard error are terminals. So log files stay
/// readable. Threads: one thread at a time may use an object.
class RUEDA_API Progress {
public:
    /// `total` is the number of steps. 0 means that this number is not known; the line then has no bar. `what` is the
    /// text before the bar. Needs init(), which says which rank this is. Throws InvalidArgument if `total` is below 0.
    explicit Progress(std::int64_t total = 0, std::string_view what = "");
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    /// Removes the bar.
    ~Progress();

    /// Says that `done` of the steps have ended, with a text after the bar, for example the loss. Draws the bar at most
    /// every 50 ms, so the function may be called in each step; look at visible() before you make an expensive text.
    void step(std::int64_t done, std::string_view note = "");
    /// Prints `text` as a line on rank 0, also if there is no terminal. The next step() draws the bar below this line.
    void line(std::string_view text);
    /// Begins again at step 0 with another text before the bar, for example for the next epoch.
    void restart(std::string_view what);
    /// Whether this rank shows the bar.
    [[nodiscard]] bool visible() const noexcept { return visible_; }

private:
    [[gnu::visibility("hidden")]] void erase();

    std::int64_t total_;
    std::string what_;
    bool prints_;  ///< whether this is rank 0
    bool visible_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point next_{};  ///< the time from which the bar may be drawn again
};

}  // namespace rueda::training
