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
#include "base/gpus/machine_gpus.hpp"
#include "base/status.hpp"
#include "launcher/gpus/rank_gpus.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/options/options.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/mpi_launcher.hpp"
#include "launcher/plan/ssh_command.hpp"
#include "launcher/plan/torch_variables.hpp"
#include "launcher/processes/held_port.hpp"

namespace rueda::launcher {

/// Facts about the machine and the caller's shell. look_around() collects them; tests use made-up facts.
struct Surroundings {
    double cores = 1;  ///< the usable cores: limited by the affinity mask and the CPU quota
    bool is_root = false;
    Environment environment;
    std::set<std::string> host_names;  ///< the names and addresses of this host
    base::FileReader read = base::read_small_file;
    std::optional<MpiLauncher> mpi;
    std::string no_mpi_reason;                  ///< why `mpi` is empty
    std::string own_path;                       ///< the file of this program; empty if /proc does not show it
    std::vector<base::MachineGpu> gpus;         ///< the GPUs of this host; filled only if a plan needs them
    std::string rendezvous;                     ///< name of the socket at which ranks meet: "@rueda-<token>"
    std::uint16_t master_port = 0;              ///< a port that is reserved for the program of rank 0; 0: none
    std::shared_ptr<const HeldPort> held_port;  ///< keeps master_port reserved
    bool stdin_is_terminal = false;
    int attempt = 0;  ///< how often the job was started before
};

enum class LaunchWay {
    mpirun,
    direct,  ///< all ranks are on this host, and ruedarun starts them itself
    agents,  ///< ranks are on other hosts, and no MPI is used: ruedarun starts an agent on each host, through ssh
};

/// A host of a job for LaunchWay::agents.
struct HostPlan {
    std::string host;
    bool is_here = false;  ///< whether this is ruedarun's own host, which needs no ssh
    int first_rank = 0;
    int ranks = 0;
    /// The command that starts the agent. If the agent runs on ruedarun's own host, ruedarun appends one more argument:
    /// the number of the descriptor from which the agent reads its order.
    std::vector<std::string> command;
};

enum class OutputMode {
    plain,     ///< a single rank on this host writes directly to ruedarun's standard output and error
    prefixed,  ///< ruedarun prints the lines of all ranks, each with the number of its rank in front
    files,     ///< two files for each rank
};

/// The limits of an elastic job, whose ranks may change while it runs (docs/design/0028-elastic-jobs.md).
struct ElasticPlan {
    int first = 1;  ///< the number of ranks with which the job starts, if there are enough slots
    int least = 1;
    int most = 1;
    std::optional<int> resets;  ///< how often the ranks may change; empty: without limit
    std::chrono::milliseconds timeout{600000};
    std::chrono::milliseconds cooldown_least{10000};
    std::chrono::milliseconds cooldown_most{600000};
    std::string discovery_script;  ///< the script that lists the hosts and their slots; empty: the slots do not change
    std::vector<Host> hosts;       ///< the hosts and their slots, if there is no script
    int slots_per_host = 0;        ///< the slots of hosts for which the script gives no number; 0: such hosts are not
                                   ///< used
    bool may_use_other_hosts = false;
    /// The cores of this host, from which the number of a worker's threads is computed when the worker starts. 0 if
    /// nothing is computed then: the plan has already set the variables for threads, or workers get no such variables.
    double cores = 0;
    std::set<std::string> own_names;  ///< the names that stand for this host
};

/// All decisions about a job, as pure data. A plan can be executed or only printed.
struct LaunchPlan {
    LaunchWay way = LaunchWay::direct;
    int ranks = 1;
    /// The hosts and their ranks. Empty if all ranks are on this host, even if the user named the host.
    std::vector<HostShare> shares;
    bool runs_here = true;                       ///< whether a rank runs on this host; if not, the program's file need
                                                 ///< not exist here
    std::vector<EnvironmentChange> environment;  ///< changes to ruedarun's environment, for all ranks
    std::string rendezvous;                      ///< the socket of the rendezvous; only for LaunchWay::direct
    bool sets_torch_variables = true;
    std::uint16_t master_port = 0;  ///< the value of MASTER_PORT; only for LaunchWay::direct, because otherwise the
                                    ///< parent of rank 0 (its supervisor) chooses a port
    std::set<std::string> user_variables;  ///< variables whose value the user has set; ruedarun does not change them
    std::vector<std::string> mpirun;       ///< the complete command line of mpirun; mpirun starts a supervisor for each
                                           ///< rank, and the supervisor starts the program
    std::vector<std::string> mpirun_to_paste;  ///< the command line for users who run mpirun without ruedarun
    std::vector<HostPlan> host_plans;          ///< only for LaunchWay::agents
    /// The arguments of each supervisor (a rank's parent), and the program. Used only if agents start ranks
    /// (LaunchWay::agents, and elastic jobs).
    std::vector<std::string> supervisor_arguments;
    SshOptions ssh;  ///< how ruedarun reaches other hosts, if it starts agents itself
    RankGpus gpus;
    /// For each rank the value of CUDA_VISIBLE_DEVICES. Empty if each rank sees all GPUs. Also empty if ranks are on
    /// other hosts, because the GPUs of these hosts are known only when the hosts have reported them.
    std::vector<std::string> devices;
    std::vector<std::string> program;
    OutputMode output = OutputMode::prefixed;
    std::string output_dir;
    bool first_rank_reads_stdin = true;
    /// Whether each rank has its own process group. False for a single rank on a terminal: this rank stays in the
    /// foreground group, so that it can read the keyboard.
    bool own_groups = true;
    std::chrono::milliseconds grace = kDefaultGrace;
    std::chrono::milliseconds grace_after_abort = kDefaultGraceAfterAbort;
    int max_restarts = 0;
    std::optional<ElasticPlan> elastic;
    int attempt = 0;                              ///< number of this attempt; if it is not 0, output is appended to
                                                  ///< existing files
    std::chrono::milliseconds start_time{60000};  ///< how long all supervisors (parents of ranks) may take to report
    std::vector<std::string> interfaces;          ///< network interfaces at which ruedarun listens for other hosts;
                                                  ///< empty: all
    std::string supervisor_program;               ///< the file of ruedarun, which runs on every host as the parent of
                                                  ///< each rank (supervisor)
    std::vector<std::string> travelling;          ///< names of the variables that other hosts get
    std::string about_threads;                    ///< what ruedarun prints about the ranks' threads; may be empty
    bool hosts_set_threads = false;               ///< whether each host divides its cores among its ranks; if not, this
                                                  ///< plan divides the cores
    std::vector<std::string> notes;               ///< notes that are always printed for the user
    std::vector<std::string> reasons;             ///< explanations for --verbose and --explain
};

/// The hidden option by which mpirun starts ruedarun as the supervisor (parent process) of a rank.
inline constexpr const char* kSupervisorOption = "--rank-supervisor";

/// The hidden option by which ruedarun starts the agent of a host (host_agent.hpp).
inline constexpr const char* kAgentOption = "--host-agent";

/// The variables by which the agent of a host tells a supervisor its rank, and the number of ranks of the host. The
/// program does not get them.
inline constexpr const char* kAgentRankVariable = "RUEDARUN_RANK";
inline constexpr const char* kAgentRanksVariable = "RUEDARUN_LOCAL_RANKS";

/// The variable with the secret by which the ranks of a job without MPI on several hosts recognise each other. The
/// agents pass it on, so it is sent only through ssh, which encrypts it.
inline constexpr const char* kRendezvousSecretVariable = "RUEDA_RENDEZVOUS_SECRET";

/// The variable that gives the supervisors (the parents of ranks) two things: the addresses at which ruedarun listens,
/// and the secret of the job (control_address.hpp).
inline constexpr const char* kControlVariable = "RUEDARUN_CONTROL";

/// The variable that tells `rueda top` the hosts of a job on several hosts. Its value consists of a token that no other
/// job has, and of the hosts, for example "3f0c…@a,b". Both are in one variable, so that only one variable has to be
/// sent to the other hosts.
inline constexpr const char* kJobVariable = "RUEDARUN_JOB";

/// The variable with the number of the attempt, counted from 0. Programs can find out from it that they were restarted.
inline constexpr const char* kRestartVariable = "RUEDARUN_RESTART";

/// The variable with the number of the generation of an elastic job, counted from 0.
inline constexpr const char* kGenerationVariable = "RUEDARUN_GENERATION";
/// The variable with the generation in which the process became a rank.
inline constexpr const char* kFirstGenerationVariable = "RUEDARUN_FIRST_GENERATION";

[[nodiscard]] Result<LaunchPlan> make_plan(const Options& options, const Surroundings& surroundings);

/// Returns the host of the rank; empty if all ranks are on this host.
[[nodiscard]] std::string host_of(const LaunchPlan& plan, int rank);

/// For a rank that ruedarun starts itself: returns the variables whose values differ between ranks.
[[nodiscard]] std::vector<EnvironmentChange> rank_environment(const LaunchPlan& plan, int rank);

/// For a rank that the agent of a host starts: returns the variables by which the rank meets the other ranks.
/// `rendezvous`: the value of RUEDA_RENDEZVOUS.
[[nodiscard]] std::vector<EnvironmentChange> rendezvous_environment(const TorchPlace& place,
                                                                    const std::string& rendezvous);

/// Returns torchrun's variables for one rank, without those that the user has set. Returns nothing if the plan sets
/// none of them.
[[nodiscard]] std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, const TorchPlace& place,
                                                               const MasterAddress& master);
/// Returns torchrun's variables for a rank that ruedarun starts itself, without those that the user has set. Returns
/// nothing if the plan sets none of them.
[[nodiscard]] std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, int rank);

/// Returns the environment after the changes.
[[nodiscard]] Environment changed_environment(Environment environment, const std::vector<EnvironmentChange>& changes);

/// Returns the value that the ranks get for a variable of -x. Fails with InvalidArgument if -x gives no value and the
/// variable is not set.
[[nodiscard]] Result<std::string> exported_value(const ExportedVariable& variable, const Environment& environment);

[[nodiscard]] std::string output_file(const std::string& folder, int rank, const char* ending);

}  // namespace rueda::launcher
