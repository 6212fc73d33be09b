// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/status.hpp"
#include "launcher/options/options.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/mpi_launcher.hpp"
#include "launcher/plan/torch_variables.hpp"
#include "launcher/processes/held_port.hpp"

namespace rueda::launcher {

/// What the machine and the caller's shell contribute. Filled by look_around(), or by hand in tests.
struct Surroundings {
    double cores = 1;  ///< affinity ∩ quota
    bool is_root = false;
    std::map<std::string, std::string> environment;
    std::set<std::string> host_names;  ///< names and addresses that mean this host
    base::FileReader read = base::read_small_file;
    std::optional<MpiLauncher> mpi;
    std::string no_mpi_reason;                  ///< where `mpi` is empty
    std::string own_path;                       ///< ruedarun's file
    std::string rendezvous;                     ///< "@rueda-<token>"
    std::string supervisor_socket;              ///< "@ruedarun-<token>"
    std::uint16_t master_port = 0;              ///< kept for the program of rank 0; 0: there is none
    std::shared_ptr<const HeldPort> held_port;  ///< keeps it
    bool stdin_is_terminal = false;
    int attempt = 0;  ///< how often the job has been started before
};

enum class LaunchWay { mpirun, direct };

enum class OutputMode {
    plain,     ///< one rank on this host: it writes to ruedarun's own standard output and error
    prefixed,  ///< lines of all ranks, each with its rank in front
    files,     ///< a pair of files for each rank
};

/// All that is to be done, decided. Pure data: it can be printed instead of run.
struct LaunchPlan {
    LaunchWay way = LaunchWay::direct;
    int ranks = 1;
    /// Where the ranks run; empty: all on this host, by whatever name it was called.
    std::vector<HostShare> shares;
    bool runs_here = true;                       ///< some rank does; else the program need not be on this host
    std::vector<EnvironmentChange> environment;  ///< against ruedarun's own, for all ranks
    std::string rendezvous;                      ///< direct only
    bool sets_torch_variables = true;
    std::uint16_t master_port = 0;             ///< where all ranks are on this host
    std::set<std::string> user_variables;      ///< names that the user has given values: no rank gets other values
    std::vector<std::string> mpirun;           ///< the whole command line, supervisor and program included
    std::vector<std::string> mpirun_to_paste;  ///< the same for who runs it without ruedarun
    std::string supervisor_socket;             ///< mpirun only; kSupervisorsByNetwork with other hosts
    std::vector<std::string> program;
    OutputMode output = OutputMode::prefixed;
    std::string output_dir;
    bool first_rank_reads_stdin = true;
    /// False for a single rank on a terminal: it stays in the foreground group, so that it can read the keyboard.
    bool own_groups = true;
    std::chrono::milliseconds grace = kDefaultGrace;
    std::chrono::milliseconds grace_after_abort = kDefaultGraceAfterAbort;
    int max_restarts = 0;
    int attempt = 0;                              ///< from 1 on files of output are continued
    std::chrono::milliseconds start_time{60000};  ///< for supervisors of other hosts to report
    std::vector<std::string> interfaces;          ///< where ruedarun listens for them; empty: all
    std::string mpirun_program;                   ///< what mpirun starts on every host: ruedarun itself
    std::vector<std::string> travelling;          ///< names of the variables that other hosts get
    std::vector<std::string> notes;               ///< what the user is told in any case
    std::vector<std::string> reasons;             ///< for --verbose and --explain
};

/// Stands in the place of a socket's name where supervisors on other hosts report over TCP.
inline constexpr const char* kSupervisorsByNetwork = "tcp";

/// The variable that tells those supervisors where ruedarun listens, and the secret that it expects.
inline constexpr const char* kControlVariable = "RUEDARUN_CONTROL";

/// The number of the attempt, from 0 on, for programs that want to know that they were started again.
inline constexpr const char* kRestartVariable = "RUEDARUN_RESTART";

[[nodiscard]] Result<LaunchPlan> make_plan(const Options& options, const Surroundings& surroundings);

/// The host that the rank runs on; empty for this one.
[[nodiscard]] std::string host_of(const LaunchPlan& plan, int rank);

/// What is set for this rank alone, where ruedarun starts it itself.
[[nodiscard]] std::vector<EnvironmentChange> rank_environment(const LaunchPlan& plan, int rank);

/// The variables of torchrun for one rank, without those that the user has given values. Empty where the plan sets
/// none.
[[nodiscard]] std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, const TorchPlace& place,
                                                               const MasterAddress& master);
/// The same for a rank of a job whose ranks are all on this host.
[[nodiscard]] std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, int rank);

/// The environment after the changes.
[[nodiscard]] std::map<std::string, std::string> changed_environment(std::map<std::string, std::string> environment,
                                                                     const std::vector<EnvironmentChange>& changes);

/// What -x gives the ranks. InvalidArgument where it hands on a variable that is not set.
[[nodiscard]] Result<std::string> exported_value(const ExportedVariable& variable,
                                                 const std::map<std::string, std::string>& environment);

[[nodiscard]] std::string output_file(const std::string& folder, int rank, const char* ending);

}  // namespace rueda::launcher
