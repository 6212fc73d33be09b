// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"

namespace rueda::launcher {

/// The exit status of `rueda` if the command line is wrong.
inline constexpr int kRuedaCalledWrongly = 3;

/// Prints why a command cannot do its work, and returns `exit_status`.
[[nodiscard]] int refuse_command(const Status& status, int exit_status);

struct CommandTexts {
    std::string name;   ///< for example "rueda top"
    std::string usage;  ///< the text after the name in the line "Usage:"
    std::string description;
    std::string examples;  ///< examples at the end of the help
};

/// Parses the command line of a command of `rueda`. Its help looks like that of ruedarun. Threads: only one thread may
/// use an object.
class CommandApp {
public:
    explicit CommandApp(const CommandTexts& texts);

    [[nodiscard]] CLI::App& options() { return app_; }
    /// Parses the arguments. Returns nothing if the command can run. If the user asked for help, prints the help. If
    /// the arguments are wrong, prints the error. In both cases, returns the exit status of the command.
    [[nodiscard]] std::optional<int> parse(std::span<const std::string> arguments);

private:
    std::string name_;
    CLI::App app_;
};

}  // namespace rueda::launcher
