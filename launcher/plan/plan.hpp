// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
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

/// Facts about the machine and the caller's shell. look_around() collects them; tests fill in their own.
struct Surroundings {
    double cores = 1;  ///< the usable cores, as limited by the affinity mask and the CPU quota
    bool is_root = false;
    Environment environment;
    std::set<std::string> host_names;  ///< the names and addresses of this host
    base::FileReader read = base::read_small_file;
    std::optional<MpiLauncher> mpi;
    std::string no_mpi_reason;                  ///< why `mpi` is empty
    std::string own_path;                       ///< the file of this program
    std::string rendezvous;                     ///< "@rueda-<token>"
    std::uint16_t master_port = 0;              ///< a port that is reserved for the program of rank 0; 0 if there is
                                                ///< none
    std::shared_ptr<const HeldPort> held_port;  ///< holds that port
    bool stdin_is_terminal = false;
    int attempt = 0;  ///< how often the job was started before
};

enum class LaunchWay { mpirun, direct };

enum class OutputMode {
    plain,     ///< one rank on this host, which writes to ruedarun's own standard output and error
    prefixed,  ///< ruedarun prints the lines of all ranks, each with the number of its rank in front
    files,     ///< two files for each rank
};

/// All decisions about a job, as pure data. A plan can be executed or only printed.
struct LaunchPlan {
    LaunchWay way = LaunchWay::direct;
    int ranks = 1;
    /// The hosts and their ranks. Empty if all ranks are on this host, whatever name the user gave for it.
    std::vector<HostShare> shares;
    bool runs_here = true;                       ///< whether a rank runs on this host; if not, the program need not
                                                 ///< exist here
    std::vector<EnvironmentChange> environment;  ///< changes to ruedarun's environment, for all ranks
    std::string rendezvous;                      ///< direct only
    bool sets_torch_variables = true;
    std::uint16_t master_port = 0;             ///< only for LaunchWay::direct; otherwise the supervisor of rank 0
                                               ///< chooses a port
    std::set<std::string> user_variables;      ///< variables to which the user gave a value; all ranks get this value
    std::vector<std::string> mpirun;           ///< the whole command line, including supervisor and program
    std::vector<std::string> mpirun_to_paste;  ///< the same command line for a user who runs it without ruedarun
    std::vector<std::string> program;
    OutputMode output = OutputMode::prefixed;
    std::string output_dir;
    bool first_rank_reads_stdin = true;
    /// Whether each rank has its own process group. False for a single rank on a terminal, which stays in the
    /// foreground group, so that it can read the keyboard.
    bool own_groups = true;
    std::chrono::milliseconds grace = kDefaultGrace;
    std::chrono::milliseconds grace_after_abort = kDefaultGraceAfterAbort;
    int max_restarts = 0;
    int attempt = 0;                              ///< the number of this attempt; from attempt 1 on, output is appended
                                                  ///< to existing files
    std::chrono::milliseconds start_time{60000};  ///< the time within which all supervisors must report
    std::vector<std::string> interfaces;          ///< the network interfaces at which ruedarun listens for other hosts;
                                                  ///< empty means all
    std::string mpirun_program;                   ///< the file of ruedarun, which mpirun starts on every host
    std::vector<std::string> travelling;          ///< the names of the variables that ruedarun passes to other hosts
    std::vector<std::string> notes;               ///< lines that are always printed for the user
    std::vector<std::string> reasons;             ///< for --verbose and --explain
};

/// The hidden option with which mpirun starts ruedarun as the supervisor of a rank (supervisor.hpp).
inline constexpr const char* kSupervisorOption = "--rank-supervisor";

/// The variable that tells supervisors the address at which ruedarun listens, and the secret that ruedarun expects
/// (control_address.hpp).
inline constexpr const char* kControlVariable = "RUEDARUN_CONTROL";

/// In a job on several hosts, the variable that tells `rueda top` on any of them the hosts of the job: a token that no
/// other job has, and the hosts, for example "3f0c…@a,b". Several variables would have to travel to the other hosts.
inline constexpr const char* kJobVariable = "RUEDARUN_JOB";

/// The variable with the number of the attempt, counted from 0. Programs can find out from it that they were restarted.
inline constexpr const char* kRestartVariable = "RUEDARUN_RESTART";

[[nodiscard]] Result<LaunchPlan> make_plan(const Options& options, const Surroundings& surroundings);

/// The host of the rank; empty if all ranks are on this host.
[[nodiscard]] std::string host_of(const LaunchPlan& plan, int rank);

/// The variables that are different for each rank, for a rank that ruedarun starts itself.
[[nodiscard]] std::vector<EnvironmentChange> rank_environment(const LaunchPlan& plan, int rank);

/// The variables of torchrun for one rank, without those to which the user gave values. The result is empty if the plan
/// sets none of them.
[[nodiscard]] std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, const TorchPlace& place,
                                                               const MasterAddress& master);
/// Returns the same for a rank that ruedarun starts itself.
[[nodiscard]] std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, int rank);

/// The environment after the changes.
[[nodiscard]] Environment changed_environment(Environment environment, const std::vector<EnvironmentChange>& changes);

/// The value that -x gives to the ranks. Fails with InvalidArgument if -x gives no value and the variable is not set.
[[nodiscard]] Result<std::string> exported_value(const ExportedVariable& variable, const Environment& environment);

[[nodiscard]] std::string output_file(const std::string& folder, int rank, const char* ending);

}  // namespace rueda::launcher
