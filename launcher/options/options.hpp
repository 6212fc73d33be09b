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

/// More than the cores of a host, and few enough that a typing error does not fill the table of processes.
inline constexpr int kMostRanksOfAHost = 1024;
/// ruedarun keeps a connection to every rank. With more ranks a process would run out of descriptors.
inline constexpr int kMostRanks = 16384;

/// Long enough for the survivors to print their errors, and short enough for a user who waits.
inline constexpr std::chrono::milliseconds kDefaultGrace{5000};
/// The same after an abort of the job. It is shorter because ruedarun has already notified every rank that it reaches.
inline constexpr std::chrono::milliseconds kDefaultGraceAfterAbort{3000};

/// What the user wrote on the command line and in the files that it names. The values are checked as far as that is
/// possible without looking at the machine.
struct Options {
    std::optional<int> ranks;     ///< empty: the hosts determine it
    std::string hosts;            ///< the value of -H, as written
    std::string hostfile;         ///< the name of the file
    std::optional<int> per_host;  ///< --processes-per-host
    bool no_mpi = false;
    bool torch_variables = true;  ///< RANK, WORLD_SIZE and the like are set for the ranks
    std::vector<std::string> mpi_args;
    std::vector<ExportedVariable> exported;  ///< if two have the same name, the later one counts
    std::vector<std::string> interfaces;
    std::optional<int> ssh_port;
    std::string ssh_identity;
    std::string output_dir;  ///< empty: ruedarun prints the output of the ranks
    std::optional<std::chrono::milliseconds> grace;
    int max_restarts = 0;
    bool dry_run = false;
    bool explain = false;
    bool verbose = false;
    bool doctor = false;
    std::vector<std::string> program;  ///< the name of the file and its arguments
    std::vector<std::string> notes;    ///< lines to print before anything starts
};

struct CommandLine {
    Options options;
    /// For --help and --version: the text to print instead of starting a job.
    std::optional<std::string> text;
};

/// `arguments` does not include ruedarun's own name. `read` reads the files that the arguments name. An InvalidArgument
/// is one line that says what is wrong and what would be right.
[[nodiscard]] Result<CommandLine> parse_command_line(std::span<const std::string> arguments,
                                                     const base::FileReader& read = base::read_small_file);

}  // namespace rueda::launcher
