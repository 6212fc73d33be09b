// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"

namespace rueda::launcher {

/// The exit status of `rueda` if it was called wrongly.
inline constexpr int kRuedaCalledWrongly = 3;

/// Prints why a command cannot do its work, and returns the exit status.
[[nodiscard]] int refuse_command(const Status& status, int exit_status);

struct CommandTexts {
    std::string name;   ///< "rueda top"
    std::string usage;  ///< what follows the name in the line "Usage:"
    std::string description;
    std::string examples;  ///< the end of the help
};

/// The parser of a command of `rueda`, with a help of the same form as that of ruedarun. Threads: one.
class CommandApp {
public:
    explicit CommandApp(const CommandTexts& texts);

    [[nodiscard]] CLI::App& options() { return app_; }
    /// Reads the arguments. If the user asked for the help, or if the arguments are wrong, it prints the help or the
    /// error, and returns the exit status with which the command ends. Otherwise it returns nothing.
    [[nodiscard]] std::optional<int> parse(std::span<const std::string> arguments);

private:
    std::string name_;
    CLI::App app_;
};

}  // namespace rueda::launcher
