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

/// The maximum number of ranks on one host. It is larger than the number of cores of any host, and small enough that a
/// typing error does not fill the table of processes.
inline constexpr int kMostRanksOfAHost = 1024;
/// The maximum number of ranks of a job. ruedarun has a connection to every rank, and with more ranks it would run out
/// of descriptors.
inline constexpr int kMostRanks = 16384;

/// The time that the surviving ranks get after a failure. They need it to print their errors, and a waiting user
/// accepts it.
inline constexpr std::chrono::milliseconds kDefaultGrace{5000};
/// The time that the ranks get after an abort of the job. It is shorter because ruedarun has already notified every
/// rank that it can reach.
inline constexpr std::chrono::milliseconds kDefaultGraceAfterAbort{3000};

/// The options on the command line and in the files that it names. The values are checked as far as this is possible
/// without facts about the machine.
struct Options {
    std::optional<int> ranks;     ///< empty: the hosts determine it
    std::string hosts;            ///< the value of -H, as written
    std::string hostfile;         ///< the name of the file
    std::optional<int> per_host;  ///< --processes-per-host
    bool no_mpi = false;
    bool torch_variables = true;  ///< whether RANK, WORLD_SIZE and similar variables are set for the ranks
    std::vector<std::string> mpi_args;
    std::vector<ExportedVariable> exported;  ///< if two variables have the same name, the later one counts
    std::vector<std::string> interfaces;
    std::optional<int> ssh_port;
    std::string ssh_identity;
    std::string output_dir;  ///< if empty, ruedarun prints the output of the ranks
    std::optional<std::chrono::milliseconds> grace;
    int max_restarts = 0;
    bool dry_run = false;
    bool explain = false;
    bool verbose = false;
    bool doctor = false;
    std::vector<std::string> program;  ///< the program: the name of its file, and its arguments
    std::vector<std::string> notes;    ///< lines to print before the job starts
};

struct CommandLine {
    Options options;
    /// The text that --help or --version prints instead of starting a job.
    std::optional<std::string> text;
};

/// Reads the command line. `arguments` does not contain ruedarun's own name. `read` reads the files that the arguments
/// name. Fails with InvalidArgument; the message is one line that says what is wrong and what would be right.
[[nodiscard]] Result<CommandLine> parse_command_line(std::span<const std::string> arguments,
                                                     const base::FileReader& read = base::read_small_file);

}  // namespace rueda::launcher
