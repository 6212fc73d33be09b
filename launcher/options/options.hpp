// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/status.hpp"
#include "launcher/options/env_file.hpp"

namespace rueda::launcher {

/// More than a host has cores, and few enough that a slip of the finger does not fill the table of processes.
inline constexpr int kMostRanksOfAHost = 1024;
/// ruedarun keeps a connection to every rank: beyond this the descriptors of a process run short.
inline constexpr int kMostRanks = 16384;

/// Long enough for the survivors to print their errors, and what mpirun's users wait without noticing.
inline constexpr std::chrono::milliseconds kDefaultGrace{5000};
/// The same where the job was aborted: ruedarun has told every rank that it can reach, so nobody has to find out first.
inline constexpr std::chrono::milliseconds kDefaultGraceAfterAbort{3000};

/// What the user wrote, on the command line and in the files it names, checked as far as that is possible without
/// looking at the machine.
struct Options {
    std::optional<int> ranks;     ///< where it is not said, the hosts say it
    std::string hosts;            ///< -H, as written
    std::string hostfile;         ///< its name
    std::optional<int> per_host;  ///< --processes-per-host
    bool no_mpi = false;
    bool torch_variables = true;  ///< RANK, WORLD_SIZE and the like are set for the ranks
    std::vector<std::string> mpi_args;
    std::vector<ExportedVariable> exported;  ///< the later of two with one name counts
    std::vector<std::string> interfaces;
    std::optional<int> ssh_port;
    std::string ssh_identity;
    std::string output_dir;  ///< empty: the ranks' output goes to ruedarun's own
    std::optional<std::chrono::milliseconds> grace;
    int max_restarts = 0;
    bool dry_run = false;
    bool explain = false;
    bool verbose = false;
    bool doctor = false;
    std::vector<std::string> program;  ///< its name and its arguments
    std::vector<std::string> notes;    ///< to be said to the user before anything starts, one line each
};

struct CommandLine {
    Options options;
    /// For --help and --version: this text is all there is to do.
    std::optional<std::string> text;
};

/// `arguments` without ruedarun's own name; the files that they name are read by `read`. InvalidArgument is one line
/// that says what is wrong and what would be right.
[[nodiscard]] Result<CommandLine> parse_command_line(std::span<const std::string> arguments,
                                                     const base::FileReader& read = base::read_small_file);

}  // namespace rueda::launcher
