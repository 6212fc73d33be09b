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
    /// Returns the help if it was asked for, or nothing. Fails with InvalidArgument.
    [[nodiscard]] Result<std::optional<std::string>> parse(std::span<const std::string> arguments);

private:
    std::string name_;
    CLI::App app_;
};

}  // namespace rueda::launcher
