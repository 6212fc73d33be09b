// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "launcher/top/screen.hpp"

namespace rueda::launcher {

/// A terminal whose whole screen one program uses. The program draws on the terminal's second screen, so the first
/// screen is unchanged when the program ends. Keys arrive without the enter key, and the terminal does not show them.
/// leave() and the destructor restore everything. Threads: one.
class Terminal {
public:
    /// If `input` is not a terminal, there are no keys.
    Terminal(int input, int output) : input_(input), output_(output) {}
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    ~Terminal() { leave(); }

    [[nodiscard]] Status enter();
    void leave() noexcept;

    [[nodiscard]] bool has_keys() const { return before_.has_value(); }
    [[nodiscard]] int input() const { return input_; }
    /// The keys that were pressed since the last call. Returns nothing if the terminal is gone.
    [[nodiscard]] std::optional<std::string> read_keys() const;
    [[nodiscard]] ScreenSize size() const;
    /// Replaces the contents of the screen. Returns false if the terminal is gone.
    [[nodiscard]] bool show(const std::vector<std::string>& lines) const;

private:
    int input_;
    int output_;
    std::optional<termios> before_;  ///< the settings of the input that leave() restores
    bool is_entered_ = false;
};

}  // namespace rueda::launcher
