// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include "base/launcher_notification.hpp"
#include "base/settings/config.hpp"
#include "base/settings/environment.hpp"
#include "base/text.hpp"
#include "launcher/hosts/choose_hosts.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/srun_task.hpp"
#include "launcher/plan/ssh_command.hpp"

namespace rueda::launcher {

namespace {

constexpr std::string_view kControlPlane = "RUEDA_CONTROL_PLANE";

/// Variables that say which rank a process is, and which GPUs it has. They are removed from the environment, because
/// they may come from another job. Otherwise every rank of this job would read the same rank number from them.
constexpr std::array<std::string_view, 14> kIdentityVariables = {
    "RUEDA_RANK",
    "RUEDA_SIZE",
    "RUEDA_LOCAL_RANK",
    "RUEDA_LOCAL_SIZE",
    "RUEDA_RENDEZVOUS",
    kRendezvousSecretVariable,
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    base::kLauncherVariable,
    kGpusPerRankVariable,
    kGenerationVariable,
    kFirstGenerationVariable,
};

/// Other hosts get the variables whose names begin with one of these texts. They also get the variables in
/// kTravellingNames, the variables that ruedarun sets, and the variables that -x names. They get no other variables.
constexpr std::array<std::string_view, 15> kTravellingPrefixes = {
    "RUEDA_", "HOROVOD_", "NCCL_",  "OMP_",      "MKL_",       "OPENBLAS_", "KMP_",     "FI_",
    "UCX_",   "I_MPI_",   "MPICH_", "OMPI_MCA_", "MPIR_CVAR_", "PMIX_MCA_", "PRTE_MCA_"};
constexpr std::array<std::string_view, 3> kTravellingNames = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"};

/// These variables contain the name of this host. They are not sent to other hosts, because the name would be wrong
/// there.
constexpr std::array<std::string_view, 4> kNamesOfThisHost = {
    "RUEDA_HOSTNAME", "HOROVOD_HOSTNAME", "MPICH_INTERFACE_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"};

/// Variables that other hosts do not get although their names begin with one of kTravellingPrefixes. A launcher sets
/// these variables for one rank or for itself. If ruedarun runs inside a rank of another job, these variables describe
/// that other job. Other hosts do not need the launcher's settings, because mpirun reads them on this host and passes
/// them to its daemons.
constexpr std::array<std::string_view, 14> kLaunchersOwnPrefixes = {"I_MPI_HYDRA_",
                                                                    "I_MPI_INFO_",
                                                                    "I_MPI_MPIRUN",
                                                                    "I_MPI_PIN_INFO",
                                                                    "I_MPI_PIN_MAPPING",
                                                                    "I_MPI_JOB_",
                                                                    "OMPI_MCA_ess",
                                                                    "OMPI_MCA_orte_",
                                                                    "OMPI_MCA_initial_wdir",
                                                                    "OMPI_MCA_pmix",
                                                                    "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
                                                                    "OMPI_MCA_mpi_oversubscribe",
                                                                    "PRTE_MCA_ess",
                                                                    "PRTE_MCA_prte_"};

bool begins_like_one_of(std::string_view name, std::span<const std::string_view> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [name](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool may_travel(std::string_view name) {
    const bool stays = is_one_of(name, kNamesOfThisHost) || begins_like_one_of(name, kLaunchersOwnPrefixes);
    return !stays && (begins_like_one_of(name, kTravellingPrefixes) || is_one_of(name, kTravellingNames));
}

class Planner {
public:
    Planner(const Options& options, const Surroundings& surroundings)
        : options_(options), around_(surroundings), cores_(surroundings.cores) {
        plan_.notes = options.notes;
        plan_.max_restarts = options.max_restarts;
        plan_.attempt = surroundings.attempt;
        plan_.program = options.program;
        plan_.grace = options.grace.value_or(kDefaultGrace);
        plan_.grace_after_abort = options.grace.value_or(kDefaultGraceAfterAbort);
        plan_.output_dir = options.output_dir;
        plan_.sets_torch_variables = options.torch_variables;
        plan_.master_port = surroundings.master_port;
        for (const ExportedVariable& variable : options.exported) {
            plan_.user_variables.insert(variable.name);
        }
    }

    Result<LaunchPlan> make() {
        note_shell_of_srun();
        RUEDA_RETURN_IF_FAILED(choose_elastic());
        RUEDA_RETURN_IF_FAILED(place());
        RUEDA_RETURN_IF_FAILED(choose_way());
        choose_output();
        forget_identity();
        choose_torch_variables();
        choose_control_plane();
        choose_threads();
        unbuffer_python();
        tell_attempt();
        tell_ranks_about_gpus();
        RUEDA_RETURN_IF_FAILED(export_variables());
        RUEDA_RETURN_IF_FAILED(divide_gpus());
        RUEDA_RETURN_IF_FAILED(check_settings());
        if (plan_.way == LaunchWay::mpirun) {
            RUEDA_RETURN_IF_FAILED(build_mpirun());
        } else if (plan_.way == LaunchWay::agents) {
            plan_host_agents();
        } else {
            plan_.rendezvous = around_.rendezvous;
            choose_groups();
            plan_other_hosts();
        }
        return std::move(plan_);
    }

private:
    template <class... Args>
    void say(fmt::format_string<Args...> text, Args&&... args) {
        plan_.reasons.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    void set(std::string_view name, std::optional<std::string> value) {
        std::erase_if(plan_.environment, [name](const EnvironmentChange& change) { return change.name == name; });
        plan_.environment.push_back({std::string(name), std::move(value)});
    }

    [[nodiscard]] bool user_set(std::string_view name) const {
        return !text_of(around_.environment, name).empty() || exports(name);
    }

    [[nodiscard]] bool exports(std::string_view name) const {
        return std::any_of(options_.exported.begin(), options_.exported.end(),
                           [name](const ExportedVariable& variable) { return variable.name == name; });
    }

    [[nodiscard]] bool more_ranks_than_cores() const { return local_ranks_ > *cores_; }

    /// Adds a note if ruedarun runs in the shell of `srun -n 4 --pty bash`. This shell has the variables of one of
    /// several ranks, so the user may expect that ruedarun runs the program as this rank. But ruedarun starts all ranks
    /// itself.
    void note_shell_of_srun() {
        const std::string tasks = text_of(around_.environment, "SLURM_STEP_NUM_TASKS");
        if (is_in_shell_of_srun(around_.environment) && !tasks.empty() && tasks != "1") {
            plan_.notes.push_back(fmt::format(
                "this is the shell of srun --pty (SLURM_PTY_PORT is set), not one of {} ranks: ruedarun starts "
                "the ranks itself, as anywhere in an allocation",
                base::quote(tasks)));
        }
    }

    /// Decides with how many ranks an elastic job starts, and the minimum and maximum number of its ranks.
    Status choose_elastic() {
        const ElasticOptions& options = options_.elastic;
        if (!options.make_elastic()) {
            return {};
        }
        const bool has_script = !options.discovery_script.empty();
        ElasticPlan elastic;
        elastic.most = options.most.value_or(
            has_script ? kMostRanksOfAHost : std::max(options_.ranks.value_or(1), options.least.value_or(1)));
        elastic.first = options_.ranks.value_or(elastic.most);
        elastic.least = options.least.value_or(has_script ? options_.ranks.value_or(1) : elastic.first);
        if (elastic.least > elastic.first || elastic.first > elastic.most) {
            const auto source = [](const char* option, bool is_given) {
                return std::string(is_given ? "" : "the default of ") + option;
            };
            return failure(ErrorCode::invalid_argument,
                           "an elastic job cannot have {} ranks at first ({}), {} at least ({}) and {} at most ({}); "
                           "expected --min-np <= -np <= --max-np",
                           elastic.first, source("-np", options_.ranks.has_value()), elastic.least,
                           source("--min-np", options.least.has_value()), elastic.most,
                           source("--max-np", options.most.has_value()));
        }
        elastic.resets = options.resets;
        elastic.timeout = options.timeout.value_or(elastic.timeout);
        elastic.cooldown_least = options.cooldown_least.value_or(elastic.cooldown_least);
        elastic.cooldown_most = options.cooldown_most.value_or(elastic.cooldown_most);
        elastic.discovery_script = options.discovery_script;
        elastic.slots_per_host = options.slots_per_host.value_or(0);
        elastic.own_names = around_.host_names;
        elastic.own_names.insert("localhost");
        plan_.elastic = std::move(elastic);
        if (!options_.no_mpi) {
            plan_.notes.emplace_back(
                "the job is elastic, so its ranks run without MPI, as with --no-mpi: MPI does not survive the death of "
                "a rank");
        }
        return check_elastic();
    }

    /// Returns the option or the setting by which the user asks for MPI; empty if there is none.
    [[nodiscard]] std::string what_asks_for_mpi() const {
        if (options_.no_mpi) {
            return "";
        }
        if (!options_.mpi_args.empty()) {
            return "--mpi-args";
        }
        if (options_.asks_for_mpi) {
            return "--mpi";
        }
        const auto exported =
            std::find_if(options_.exported.rbegin(), options_.exported.rend(),
                         [](const ExportedVariable& variable) { return variable.name == kControlPlane; });
        const bool has_value = exported != options_.exported.rend() && exported->value;
        const std::string control = has_value ? *exported->value : text_of(around_.environment, kControlPlane);
        return control == "mpi" ? fmt::format("{}=mpi", kControlPlane) : "";
    }

    [[nodiscard]] Status check_elastic() const {
        if (const std::string asking = what_asks_for_mpi(); !asking.empty()) {
            return failure(ErrorCode::invalid_argument,
                           "{} asks for MPI, but an elastic job (--min-np, --max-np, --host-discovery-script) runs "
                           "without it, because MPI does not survive the loss of a rank; leave {} out, or use "
                           "--max-restarts, which starts the whole job again, instead of the options of elastic jobs",
                           asking, asking);
        }
        if (options_.gpus_per_rank) {
            return failure(ErrorCode::invalid_argument,
                           "--gpus-per-rank divides the GPUs among a fixed number of ranks, and an elastic job has "
                           "none; leave it out, and let each rank choose its GPU by its local rank");
        }
        if (!plan_.elastic->discovery_script.empty() && !(options_.hosts.empty() && options_.hostfile.empty())) {
            return failure(ErrorCode::invalid_argument,
                           "--host-discovery-script and -H or --hostfile both name hosts; leave one of them out");
        }
        return {};
    }

    /// Returns the hosts of an elastic job whose hosts do not change. Hosts without a number of slots divide the ranks
    /// equally, as in other jobs.
    [[nodiscard]] std::vector<Host> elastic_hosts(const std::optional<HostList>& list) const {
        const ElasticPlan& elastic = *plan_.elastic;
        std::vector<Host> hosts = list ? list->hosts : std::vector<Host>{{"localhost", 0, 0}};
        const int count = static_cast<int>(hosts.size());
        const int usual = elastic.slots_per_host > 0 ? elastic.slots_per_host : (elastic.first + count - 1) / count;
        for (Host& host : hosts) {
            host.slots = host.slots > 0 ? host.slots : usual;
        }
        return hosts;
    }

    /// Places the first ranks of an elastic job.
    Status place_elastic(const std::optional<HostList>& list) {
        ElasticPlan& elastic = *plan_.elastic;
        const bool has_script = !elastic.discovery_script.empty();
        if (has_script) {
            elastic.may_use_other_hosts = true;
            say("elastic: {} ranks at first if there are slots, {} at least, {} at most; {} prints the hosts",
                elastic.first, elastic.least, elastic.most, elastic.discovery_script);
            return place_here(options_.ranks.value_or(elastic.least));
        }
        elastic.hosts = elastic_hosts(list);
        if (list && list->own) {
            elastic.own_names.insert(*list->own);
        }
        int slots = 0;
        int own_slots = 0;
        for (const Host& host : elastic.hosts) {
            slots += host.slots;
            own_slots += elastic.own_names.contains(host.name) ? host.slots : 0;
        }
        elastic.may_use_other_hosts = own_slots < slots;
        plan_.runs_here = own_slots > 0;
        if (slots < elastic.least) {
            return failure(ErrorCode::invalid_argument,
                           "{} has {} slots, and the job needs at least {} ranks (--min-np; its default is -np); "
                           "give it more slots, or write a smaller --min-np",
                           elastic.may_use_other_hosts ? format_hosts(elastic.hosts) : "this host", slots,
                           elastic.least);
        }
        say("elastic: {} ranks at first if there are slots, {} at least, {} at most; slots: {}", elastic.first,
            elastic.least, elastic.most, format_hosts(elastic.hosts));
        RUEDA_RETURN_IF_FAILED(place_here(std::min(elastic.first, slots)));
        local_ranks_ = std::max(1, std::min(own_slots, elastic.most));
        return {};
    }

    /// Decides which ranks run on which hosts.
    Status place() {
        const Result<std::optional<HostList>> list = choose_hosts(options_, around_.environment, around_.read);
        RUEDA_RETURN_IF_FAILED(list.status());
        if (plan_.elastic) {
            return place_elastic(list.value());
        }
        if (!list.value()) {
            if (options_.ranks && options_.per_host && *options_.ranks > *options_.per_host) {
                return failure(ErrorCode::invalid_argument,
                               "-np {} is more than --processes-per-host {}, and there is this host only; name more "
                               "with -H or --hostfile, or leave --processes-per-host out",
                               *options_.ranks, *options_.per_host);
            }
            return place_here(options_.ranks ? options_.ranks : options_.per_host);
        }
        plan_.notes.insert(plan_.notes.end(), list.value()->notes.begin(), list.value()->notes.end());
        RUEDA_RETURN_IF_FAILED(check_that_we_launch(*list.value()));
        Result<Placement> placement = place_ranks(*list.value(), options_.ranks, options_.per_host);
        RUEDA_RETURN_IF_FAILED(placement.status());
        say("{}", placement.value().reason);
        const std::vector<HostShare>& shares = placement.value().shares;
        const bool all_here = std::all_of(shares.begin(), shares.end(), [&](const HostShare& share) {
            return is_this_host(share.host, *list.value());
        });
        if (all_here) {
            return place_here(ranks_of(placement.value()));
        }
        return place_there(placement.value(), *list.value());
    }

    Status place_here(std::optional<int> ranks) {
        if (!ranks) {
            return failure(
                ErrorCode::invalid_argument,
                "the number of processes is missing; give it as -np N, for example ruedarun -np 2 ./program");
        }
        plan_.ranks = *ranks;
        local_ranks_ = *ranks;
        return check_number();
    }

    Status place_there(const Placement& placement, const HostList& list) {
        plan_.shares = placement.shares;
        put_own_host_first(list);
        plan_.runs_here = std::any_of(plan_.shares.begin(), plan_.shares.end(),
                                      [&](const HostShare& share) { return is_this_host(share.host, list); });
        plan_.ranks = ranks_of(placement);
        local_ranks_ = most_ranks_on_a_host(placement);
        for (const HostShare& share : plan_.shares) {
            const bool is_here = is_this_host(share.host, list);
            const int first =
                plan_.host_plans.empty() ? 0 : plan_.host_plans.back().first_rank + plan_.host_plans.back().ranks;
            plan_.host_plans.push_back({share.host, is_here, first, share.ranks, {}});
            say("host {}: {} {}", share.host, share.ranks, share.ranks == 1 ? "rank" : "ranks");
        }
        cores_ = list.cores ? std::optional<double>(*list.cores) : std::nullopt;
        return check_number();
    }

    /// Moves this host to the front of the list. Open MPI always gives the first ranks to the host on which mpirun
    /// runs, even if the list begins with another host (seen with 4.1.4).
    void put_own_host_first(const HostList& list) {
        const auto own = std::find_if(plan_.shares.begin(), plan_.shares.end(),
                                      [&](const HostShare& share) { return is_this_host(share.host, list); });
        const bool is_open_mpi = around_.mpi && around_.mpi->kind == MpiKind::open_mpi;
        if (is_open_mpi && own != plan_.shares.end() && own != plan_.shares.begin()) {
            say("{} is moved to the front: mpirun runs there, and Open MPI begins with its own host", own->host);
            std::rotate(plan_.shares.begin(), own, own + 1);
        }
    }

    [[nodiscard]] Status check_number() const {
        const bool one_host = plan_.shares.empty();
        if (plan_.ranks > kMostRanks || local_ranks_ > kMostRanksOfAHost) {
            return failure(
                ErrorCode::invalid_argument, "there are to be {} processes{}; expected at most {}",
                one_host ? plan_.ranks : std::max(plan_.ranks, local_ranks_),
                local_ranks_ > kMostRanksOfAHost ? fmt::format(", {} of them on one host", local_ranks_) : "",
                local_ranks_ > kMostRanksOfAHost ? kMostRanksOfAHost : kMostRanks);
        }
        return {};
    }

    [[nodiscard]] bool is_this_host(const std::string& name, const HostList& list) const {
        return name == list.own || around_.host_names.contains(name);
    }

    /// Fails on all hosts of SageMaker except the first. SageMaker starts the same command on every host, but only one
    /// may start the job.
    static Status check_that_we_launch(const HostList& list) {
        const bool is_sagemaker = list.origin == "SageMaker";
        if (is_sagemaker && list.own && *list.own != list.hosts.front().name) {
            return failure(ErrorCode::invalid_argument,
                           "this is {}, but the job of SageMaker is started from {}, the first of SM_HOSTS; run "
                           "ruedarun there only, or name the hosts with -H",
                           *list.own, list.hosts.front().name);
        }
        return {};
    }

    Status choose_way() {
        if (!plan_.shares.empty() && options_.may_use_mpi() && !around_.mpi) {
            return failure(
                ErrorCode::invalid_argument,
                "ranks on other hosts ({}) need an mpirun, but {}; without MPI, --no-mpi starts them through "
                "ssh, and their data goes over UCX",
                plan_.shares.back().host, around_.no_mpi_reason);
        }
        if (options_.no_mpi && !plan_.shares.empty()) {
            plan_.way = LaunchWay::agents;
            say("started without mpirun, through ssh: --no-mpi");
        } else if (!options_.may_use_mpi()) {
            plan_.way = LaunchWay::direct;
            say("started without mpirun: {}", options_.no_mpi ? "--no-mpi" : "the job is elastic");
        } else if (around_.mpi) {
            plan_.way = LaunchWay::mpirun;
            say("started by {} ({})", around_.mpi->path, around_.mpi->version);
        } else if (!options_.mpi_args.empty()) {
            return failure(ErrorCode::invalid_argument, "--mpi-args needs an mpirun, but {}", around_.no_mpi_reason);
        } else {
            plan_.way = LaunchWay::direct;
            say("started without mpirun: {}", around_.no_mpi_reason);
        }
        say_cores();
        return {};
    }

    void say_cores() {
        if (!cores_) {
            say("the cores of the hosts are not known here; each host counts its own when its ranks start");
            return;
        }
        say("{}{} on {:.3g} usable {}{}", local_ranks_ == 1 ? "1 rank" : fmt::format("{} ranks", local_ranks_),
            plan_.shares.empty() ? "" : " of a host", *cores_, *cores_ == 1 ? "core" : "cores",
            more_ranks_than_cores() ? ": more ranks than cores, they take turns" : "");
    }

    void choose_output() {
        if (!options_.output_dir.empty()) {
            plan_.output = OutputMode::files;
        } else {
            plan_.output =
                plan_.ranks == 1 && plan_.shares.empty() && !plan_.elastic ? OutputMode::plain : OutputMode::prefixed;
        }
    }

    /// Decides which ranks get their own process group. A program that reads from the terminal must be in the
    /// terminal's foreground group. Several ranks cannot share a keyboard, so this matters only for a single rank.
    void choose_groups() {
        plan_.own_groups = plan_.elastic || !(plan_.ranks == 1 && around_.stdin_is_terminal);
        plan_.first_rank_reads_stdin = !(plan_.ranks > 1 && around_.stdin_is_terminal);
    }

    void forget_identity() {
        for (const std::string_view name : kIdentityVariables) {
            forget(name);
        }
        note_forgotten_gpus();
        if (options_.torch_variables) {
            for (const std::string& name : names_of_outer_torchrun(around_.environment)) {
                forget(name);
            }
        }
    }

    /// Adds a note if RUEDA_GPUS_PER_RANK was removed. The user may have set this variable because a script of the user
    /// gives each rank its GPUs.
    void note_forgotten_gpus() {
        if (around_.environment.contains(kGpusPerRankVariable) && !exports(kGpusPerRankVariable) &&
            !options_.gpus_per_rank) {
            plan_.notes.push_back(
                fmt::format("{0} is set in the environment and is removed, because it may describe an outer job; "
                            "--gpus-per-rank N divides the GPUs, and -x {0} passes the variable on",
                            kGpusPerRankVariable));
        }
    }

    /// Removes a variable, unless the user gives it a value with -x.
    void forget(std::string_view name) {
        if (around_.environment.contains(std::string(name)) && !exports(name)) {
            set(name, std::nullopt);
            say("{} was set in the environment and is removed: it is the launcher's to set", name);
        }
    }

    void choose_torch_variables() {
        if (!options_.torch_variables) {
            say("the variables of torchrun are not set: --no-torch-variables");
            return;
        }
        std::vector<std::string_view> set_here;
        std::copy_if(kTorchVariables.begin(), kTorchVariables.end(), std::back_inserter(set_here),
                     [this](std::string_view name) { return !exports(name); });
        say("{}: set for each rank, for libraries that expect torchrun", fmt::join(set_here, ", "));
        if (plan_.way == LaunchWay::direct && plan_.master_port == 0) {
            say("MASTER_ADDR and MASTER_PORT are not set: this host has no free port");
        }
        if (plan_.way == LaunchWay::mpirun) {
            say("if you paste the command, no ruedarun chooses a port or compares the hosts: MASTER_ADDR and "
                "MASTER_PORT are not set then{}",
                plan_.shares.empty() ? "" : ", and GROUP_RANK, NODE_RANK and GROUP_WORLD_SIZE only on a single host");
        }
    }

    void choose_control_plane() {
        if (plan_.way == LaunchWay::mpirun && user_set(kControlPlane)) {
            say("{} is left as you set it", kControlPlane);
            return;
        }
        set(kControlPlane, plan_.way == LaunchWay::mpirun ? "mpi" : "socket");
        say("{}={}", kControlPlane, plan_.way == LaunchWay::mpirun ? "mpi" : "socket");
    }

    /// Whether the user's arguments for mpirun bind the ranks to cores. If they do, ruedarun cannot know a rank's
    /// cores.
    [[nodiscard]] bool user_binds_ranks() const {
        return plan_.way == LaunchWay::mpirun &&
               std::any_of(options_.mpi_args.begin(), options_.mpi_args.end(), [](const std::string& argument) {
                   return argument.find("bind-to") != std::string::npos ||
                          argument.find("map-by") != std::string::npos || argument.find("cpu-set") != std::string::npos;
               });
    }

    /// Returns the largest number of ranks that a host may have at any time. The ranks of an elastic job keep their
    /// threads when other ranks join.
    [[nodiscard]] int most_local_ranks() const {
        if (!plan_.elastic) {
            return local_ranks_;
        }
        return plan_.elastic->discovery_script.empty() ? local_ranks_ : plan_.elastic->most;
    }

    void choose_threads() {
        const std::string_view first = kThreadVariables.front();
        if (!options_.thread_variables) {
            say("{} and similar variables are not set: --no-thread-variables", first);
            return;
        }
        if (user_set(first)) {
            // one note about OMP_NUM_THREADS is enough, because MKL and OpenBLAS follow this variable
            say("{} is left as you set it", first);
            return;
        }
        if (!cores_ || user_binds_ranks()) {
            for (const std::string_view name : kThreadVariables) {
                if (!user_set(name)) {
                    say("{}: each host sets it, its usable cores divided by its ranks", name);
                }
            }
            plan_.about_threads = fmt::format("each host sets {}, its usable cores divided by its ranks", first);
            plan_.hosts_set_threads = true;
            return;
        }
        if (plan_.elastic && plan_.elastic->may_use_other_hosts) {
            // Each worker gets its threads when it starts, because the host and its number of slots are not known
            // before. On other hosts, the supervisors do the same.
            plan_.elastic->cores = *cores_;
            plan_.about_threads =
                "threads of each rank: the cores of its host divided by the slots that the host has when the rank "
                "starts";
            say("{}: set for each rank when it starts, the cores of its host divided by the host's slots", first);
            return;
        }
        const int ranks = most_local_ranks();
        const std::vector<EnvironmentChange> settings =
            thread_settings({*cores_, *cores_}, ranks, [this](std::string_view name) { return user_set(name); });
        for (const EnvironmentChange& setting : settings) {
            const bool is_count = is_one_of(setting.name, kThreadVariables);
            say("{}={}: {}{}", setting.name, *setting.value,
                is_count ? (plan_.elastic ? "cores divided by the largest number of ranks" : "cores divided by ranks")
                         : "threads without work sleep after this time in milliseconds",
                is_count && !plan_.shares.empty() ? " of a host" : "");
            set(setting.name, setting.value);
        }
        if (ranks > 1) {
            plan_.about_threads =
                fmt::format("threads of each rank: {} ({:.3g} {} for {}{} {}{})", settings_text(settings), *cores_,
                            *cores_ == 1 ? "core" : "cores", plan_.elastic ? "at most " : "", ranks,
                            ranks == 1 ? "rank" : "ranks", plan_.shares.empty() ? "" : " on a host");
        }
    }

    /// Sets PYTHONUNBUFFERED. Python buffers up to 8 KiB of output to a pipe or file. Without the variable, the last
    /// lines of a killed rank would be lost.
    void unbuffer_python() {
        constexpr std::string_view kUnbuffered = "PYTHONUNBUFFERED";
        if (plan_.output != OutputMode::plain && !user_set(kUnbuffered)) {
            set(kUnbuffered, "1");
            say("{}=1: lines of Python programs appear at once", kUnbuffered);
        }
    }

    /// Sets the variable with the number of the attempt. If it is not 0, the program knows that it should continue from
    /// its checkpoint.
    void tell_attempt() {
        if (options_.max_restarts > 0) {
            set(kRestartVariable, std::to_string(plan_.attempt));
            say("started again at most {} {} after a rank has failed", options_.max_restarts,
                options_.max_restarts == 1 ? "time" : "times");
        }
    }

    void tell_ranks_about_gpus() {
        if (options_.share_gpu) {
            set(kShareGpuVariable, "1");
            say("{}=1: several ranks of a host may use one GPU", kShareGpuVariable);
        }
        if (options_.gpus_per_rank) {
            plan_.gpus = {*options_.gpus_per_rank, options_.share_gpu};
            set(kGpusPerRankVariable, std::to_string(*options_.gpus_per_rank));
        }
    }

    /// Divides the GPUs of this host among the ranks. If ranks run on other hosts, the GPUs are divided later, when all
    /// hosts have reported their GPUs.
    Status divide_gpus() {
        if (plan_.gpus.per_rank == 0) {
            return {};
        }
        if (!plan_.shares.empty()) {
            say("{}: each rank gets {} of the GPUs of its host, after the hosts have reported their GPUs",
                base::kVisibleDevices, plan_.gpus.per_rank);
            return {};
        }
        const Environment environment = changed_environment(around_.environment, plan_.environment);
        const auto variable = environment.find(base::kVisibleDevices);
        const base::VisibleGpus visible = base::visible_gpus(
            variable == environment.end() ? std::nullopt : std::optional(variable->second), around_.gpus);
        for (int rank = 0; rank < plan_.ranks; ++rank) {
            Result<std::string> devices = devices_of_rank(plan_.gpus, rank, plan_.ranks, host_name(), visible);
            RUEDA_RETURN_IF_FAILED(devices.status());
            plan_.devices.push_back(std::move(devices).value());
        }
        say("{}: {} for each rank, of {}", base::kVisibleDevices,
            plan_.gpus.per_rank == 1 ? "one GPU" : fmt::format("{} GPUs", plan_.gpus.per_rank),
            base::describe_gpus(visible));
        return {};
    }

    Status export_variables() {
        for (const ExportedVariable& variable : options_.exported) {
            Result<std::string> value = exported_value(variable, around_.environment);
            RUEDA_RETURN_IF_FAILED(value.status());
            set(variable.name, std::move(value).value());
        }
        return {};
    }

    /// Checks Rueda's settings. So a wrong setting is reported once, and not by every rank.
    Status check_settings() {
        const Result<base::Config> config =
            base::read_config(base::environment_of(changed_environment(around_.environment, plan_.environment)));
        RUEDA_RETURN_IF_FAILED(config.status());
        plan_.start_time =
            std::chrono::milliseconds(static_cast<std::int64_t>(config.value().start_timeout_seconds * 1000));
        return {};
    }

    /// Returns the arguments of each supervisor (the parent of a rank) after its first option: words about GPUs, the
    /// names of variables that the supervisor must not set, and the program.
    [[nodiscard]] std::vector<std::string> supervisor_arguments() const {
        std::vector<std::string> words = words_of(plan_.gpus);
        // If a user pastes the printed command of mpirun, no ruedarun controls the job. In this case, the supervisors
        // set torchrun's variables themselves. They leave out the variables whose names are added here.
        for (const std::string_view name : kTorchVariables) {
            if (!options_.torch_variables || exports(name)) {
                words.emplace_back(name);
            }
        }
        if (!options_.thread_variables) {
            words.insert(words.end(), kThreadSettings.begin(), kThreadSettings.end());
        }
        words.emplace_back("--");
        words.insert(words.end(), options_.program.begin(), options_.program.end());
        return words;
    }

    /// Decides what the agents of other hosts need.
    void plan_agents() {
        plan_.travelling = travelling_variables();
        plan_.interfaces = options_.interfaces;
        plan_.supervisor_program = around_.own_path;
        plan_.supervisor_arguments = supervisor_arguments();
        plan_.ssh = {options_.ssh_port, options_.ssh_identity};
        say("the ranks meet over TCP, and their data goes over UCX: there is no MPI");
        // UCX_NET_DEVICES is not set from --network-interfaces. A host often has one network for connections such as
        // those of ruedarun, and a faster network, such as InfiniBand, for data.
        if (!plan_.interfaces.empty() && !user_set("UCX_NET_DEVICES")) {
            say("--network-interfaces concerns only ruedarun's connections; UCX_NET_DEVICES names the interfaces of "
                "UCX");
        }
        say("variables that other hosts get: {}", fmt::join(plan_.travelling, " "));
    }

    /// An elastic job may start agents on other hosts later.
    void plan_other_hosts() {
        if (plan_.elastic && plan_.elastic->may_use_other_hosts) {
            plan_agents();
        }
    }

    /// Decides how the agents of the hosts are started. The secrets of the job go through ssh's standard input, which
    /// is the agent's descriptor 0.
    void plan_host_agents() {
        plan_agents();
        // If standard input is a terminal, rank 0 must not read it. The agent has a process group of its own, so rank 0
        // would be in the background of the terminal. The kernel stops a background process that reads the terminal.
        plan_.first_rank_reads_stdin = !around_.stdin_is_terminal;
        for (HostPlan& host : plan_.host_plans) {
            const std::vector<std::string> here = {around_.own_path, kAgentOption};
            const std::vector<std::string> there = {around_.own_path, kAgentOption, "0"};
            host.command = host.is_here ? here : ssh_command(host.host, plan_.ssh, there);
        }
    }

    Status build_mpirun() {
        plan_.travelling = travelling_variables();
        plan_.interfaces = options_.interfaces;
        plan_.supervisor_program = around_.own_path;
        MpiRequest request;
        request.ranks = plan_.ranks;
        request.shares = plan_.shares;
        request.more_ranks_than_cores = cores_ ? std::optional(more_ranks_than_cores()) : std::nullopt;
        request.as_root = around_.is_root;
        request.interfaces = options_.interfaces;
        request.ssh_port = options_.ssh_port;
        request.ssh_identity = options_.ssh_identity;
        request.travelling = plan_.travelling;
        request.user_args = options_.mpi_args;
        request.program = {around_.own_path, kSupervisorOption};
        const std::vector<std::string> arguments = supervisor_arguments();
        request.program.insert(request.program.end(), arguments.begin(), arguments.end());
        Result<MpiCommand> to_paste = mpi_command(*around_.mpi, request);
        RUEDA_RETURN_IF_FAILED(to_paste.status());
        plan_.mpirun_to_paste = std::move(to_paste.value().words);
        request.travelling.emplace_back(kControlVariable);
        if (!plan_.shares.empty()) {
            request.travelling.emplace_back(kJobVariable);
        }
        Result<MpiCommand> command = mpi_command(*around_.mpi, request);
        RUEDA_RETURN_IF_FAILED(command.status());
        for (const std::string& reason : command.value().reasons) {
            say("{}", reason);
        }
        plan_.mpirun = std::move(command.value().words);
        if (!plan_.shares.empty()) {
            say("variables that other hosts get: {}", fmt::join(plan_.travelling, " "));
        }
        return {};
    }

    /// Returns the names of the variables that other hosts get. These are settings of Rueda and of MPI, and variables
    /// that are needed to find programs. Variables that this plan sets, or that the user named, are included too. If a
    /// name looks like a secret, the variable is included only if the user named it with -x.
    [[nodiscard]] std::vector<std::string> travelling_variables() {
        std::set<std::string> names;
        for (const auto& [name, value] : changed_environment(around_.environment, plan_.environment)) {
            if (may_travel(name)) {
                names.insert(name);
            }
        }
        for (const EnvironmentChange& change : plan_.environment) {
            if (change.value) {
                names.insert(change.name);
            }
        }
        const bool others = !plan_.shares.empty() || (plan_.elastic && plan_.elastic->may_use_other_hosts);
        for (const std::string_view name : kNamesOfThisHost) {
            if (others && around_.environment.contains(std::string(name)) && !exports(name)) {
                say("{} stays on this host: it says what this one is called", name);
            }
        }
        std::erase_if(names, [&](const std::string& name) {
            const bool stays = others && looks_like_a_secret(name) && !is_named_for_export(name);
            if (stays) {
                plan_.notes.push_back(
                    fmt::format("{0} looks like a secret and stays on this host; -x {0} passes it on", name));
            }
            return stays;
        });
        return {names.begin(), names.end()};
    }

    [[nodiscard]] bool is_named_for_export(const std::string& name) const {
        return std::any_of(options_.exported.begin(), options_.exported.end(), [&](const ExportedVariable& variable) {
            return variable.name == name && variable.named_for_export;
        });
    }

    const Options& options_;
    const Surroundings& around_;
    std::optional<double> cores_;  ///< number of cores of each host; empty if ruedarun cannot know it
    int local_ranks_ = 1;          ///< the largest number of ranks on one host
    LaunchPlan plan_;
};

}  // namespace

Result<LaunchPlan> make_plan(const Options& options, const Surroundings& surroundings) {
    return Planner(options, surroundings).make();
}

std::string host_of(const LaunchPlan& plan, int rank) {
    for (const HostShare& share : plan.shares) {
        if (rank < share.ranks) {
            return share.host;
        }
        rank -= share.ranks;
    }
    return "";
}

std::vector<EnvironmentChange> rank_environment(const LaunchPlan& plan, int rank) {
    const std::string number = std::to_string(rank);
    const std::string size = std::to_string(plan.ranks);
    std::vector<EnvironmentChange> changes = {{"RUEDA_RANK", number},
                                              {"RUEDA_SIZE", size},
                                              {"RUEDA_LOCAL_RANK", number},
                                              {"RUEDA_LOCAL_SIZE", size},
                                              {"RUEDA_RENDEZVOUS", plan.rendezvous}};
    if (!plan.devices.empty()) {
        changes.push_back({base::kVisibleDevices, plan.devices[static_cast<std::size_t>(rank)]});
    }
    const std::vector<EnvironmentChange> torch = torch_environment(plan, rank);
    changes.insert(changes.end(), torch.begin(), torch.end());
    return changes;
}

std::vector<EnvironmentChange> rendezvous_environment(const TorchPlace& place, const std::string& rendezvous) {
    return {{"RUEDA_RANK", std::to_string(place.rank)},
            {"RUEDA_SIZE", std::to_string(place.ranks)},
            {"RUEDA_LOCAL_RANK", std::to_string(place.local_rank)},
            {"RUEDA_LOCAL_SIZE", std::to_string(place.local_ranks)},
            {"RUEDA_RENDEZVOUS", rendezvous}};
}

std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, const TorchPlace& place,
                                                 const MasterAddress& master) {
    if (!plan.sets_torch_variables) {
        return {};
    }
    std::vector<EnvironmentChange> changes = torch_variables(place, master);
    std::erase_if(changes, [&](const EnvironmentChange& change) { return plan.user_variables.contains(change.name); });
    return changes;
}

std::vector<EnvironmentChange> torch_environment(const LaunchPlan& plan, int rank) {
    TorchPlace place;
    place.rank = place.local_rank = rank;
    place.ranks = place.local_ranks = plan.ranks;
    return torch_environment(plan, place, {kMasterOfOneHost, plan.master_port});
}

Environment changed_environment(Environment environment, const std::vector<EnvironmentChange>& changes) {
    for (const EnvironmentChange& change : changes) {
        if (change.value) {
            environment[change.name] = *change.value;
        } else {
            environment.erase(change.name);
        }
    }
    return environment;
}

Result<std::string> exported_value(const ExportedVariable& variable, const Environment& environment) {
    if (variable.value) {
        return *variable.value;
    }
    const auto found = environment.find(variable.name);
    if (found == environment.end()) {
        return failure(ErrorCode::invalid_argument, "-x {0}: {0} is not set in the environment; write -x {0}=value",
                       variable.name);
    }
    return found->second;
}

std::string output_file(const std::string& folder, int rank, const char* ending) {
    return fmt::format("{}/rank.{}.{}", folder, rank, ending);
}

}  // namespace rueda::launcher
