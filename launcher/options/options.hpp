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

/// The maximum number of ranks on one host. No host has so many cores. The limit exists because a typing error must not
/// fill the table of processes.
inline constexpr int kMostRanksOfAHost = 1024;
/// The maximum number of ranks of a job. ruedarun has a connection to every rank, and would run out of descriptors with
/// more ranks.
inline constexpr int kMostRanks = 16384;

/// The maximum number of GPUs of a rank. No host has more GPUs.
inline constexpr int kMostGpusOfARank = 256;

/// How long the other ranks may continue after a rank failed. They need some time to print their errors. But the time
/// must be short, because the user waits for the end of the job.
inline constexpr std::chrono::milliseconds kDefaultGrace{5000};
/// How long the ranks may continue after an abort of the job. This time is shorter than kDefaultGrace, because ruedarun
/// has already notified every rank that it can reach.
inline constexpr std::chrono::milliseconds kDefaultGraceAfterAbort{3000};

/// The options of an elastic job (docs/design/0028-elastic-jobs.md). A field is empty if the option was not given.
struct ElasticOptions {
    std::optional<int> least;      ///< value of --min-np
    std::optional<int> most;       ///< value of --max-np
    std::string discovery_script;  ///< the script that prints the hosts and their slots
    std::optional<int> slots_per_host;
    std::optional<std::chrono::milliseconds> timeout;
    std::optional<int> resets;
    std::optional<std::chrono::milliseconds> cooldown_least;
    std::optional<std::chrono::milliseconds> cooldown_most;

    /// Whether the options make the job elastic. A limit on the number of ranks does this, and so does a script that
    /// lists hosts. The other fields only matter if the job is elastic.
    [[nodiscard]] bool make_elastic() const { return least || most || !discovery_script.empty(); }
};

/// The options on the command line and in the files that it names. Their values are checked as far as possible without
/// facts about the machine.
struct Options {
    std::optional<int> ranks;          ///< number of ranks; empty: as many as the hosts have slots
    std::string hosts;                 ///< the value of -H, as written
    std::string hostfile;              ///< the name of the file
    std::optional<int> per_host;       ///< value of --processes-per-host
    std::optional<int> gpus_per_rank;  ///< value of --gpus-per-rank; empty: every rank sees all GPUs of its host
    bool share_gpu = false;
    bool no_mpi = false;
    bool asks_for_mpi = false;     ///< whether horovodrun's flag --mpi was given
    bool torch_variables = true;   ///< whether ranks get RANK, WORLD_SIZE and similar variables
    bool thread_variables = true;  ///< whether ranks get OMP_NUM_THREADS and similar variables
    std::vector<std::string> mpi_args;
    std::vector<ExportedVariable> exported;  ///< the variables of -x; if a name occurs twice, the later one counts
    std::vector<std::string> interfaces;
    std::optional<int> ssh_port;
    std::string ssh_identity;
    std::string output_dir;  ///< folder for the ranks' output; if empty, ruedarun prints the output
    std::optional<std::chrono::milliseconds> grace;
    int max_restarts = 0;
    ElasticOptions elastic;
    /// Whether mpirun may start the job. It must not start an elastic job, because MPI does not survive the loss of a
    /// rank.
    [[nodiscard]] bool may_use_mpi() const { return !no_mpi && !elastic.make_elastic(); }
    bool dry_run = false;
    bool explain = false;
    bool verbose = false;
    bool doctor = false;
    std::vector<std::string> program;  ///< the program's file and its arguments
    std::vector<std::string> notes;    ///< lines to print before the job starts
};

struct CommandLine {
    Options options;
    /// The text to print for --help or --version. In this case no job is started.
    std::optional<std::string> text;
};

/// Parses the command line; `arguments` does not contain ruedarun's own name. `read` reads the files that the arguments
/// name. Fails with InvalidArgument. The message is one line that says what is wrong and what would be right.
[[nodiscard]] Result<CommandLine> parse_command_line(std::span<const std::string> arguments,
                                                     const base::FileReader& read = base::read_small_file);

}  // namespace rueda::launcher
