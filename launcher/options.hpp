// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// More than a host has cores, and few enough that a slip of the finger does not fill the table of processes.
inline constexpr int kMostRanks = 1024;

/// Long enough for the survivors to print their errors, and what mpirun's users wait without noticing.
inline constexpr std::chrono::milliseconds kDefaultGrace{5000};

/// One `-x NAME=value`; without a value the variable is handed on as it is.
struct ExportedVariable {
    std::string name;
    std::optional<std::string> value;
};

/// What the user wrote, checked as far as that is possible without looking at the machine.
struct Options {
    int ranks = 0;
    bool no_mpi = false;
    std::vector<std::string> mpi_args;
    std::vector<ExportedVariable> exported;
    std::string output_dir;  ///< empty: the ranks' output goes to ruedarun's own
    std::chrono::milliseconds grace = kDefaultGrace;
    bool dry_run = false;
    bool verbose = false;
    std::vector<std::string> program;  ///< its name and its arguments
};

struct CommandLine {
    Options options;
    /// For --help and --version: this text is all there is to do.
    std::optional<std::string> text;
};

/// `arguments` without ruedarun's own name. InvalidArgument is one line that says what is wrong and what would be
/// right.
[[nodiscard]] Result<CommandLine> parse_command_line(std::span<const std::string> arguments);

}  // namespace rueda::launcher
