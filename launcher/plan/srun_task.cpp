// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/srun_task.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/numbers.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

namespace {

std::optional<int> number_of(const Environment& environment, const std::string& name) {
    return base::parse_integer<int>(text_of(environment, name));
}

/// Returns the name of the interface that `srun --mpi=…` prepared for MPI in this task; empty if there is none.
std::string pmi_of(const Environment& environment) {
    for (const auto& [variable, name] :
         {std::pair("PMIX_RANK", "PMIx"), std::pair("PMI_RANK", "PMI"), std::pair("PMI_FD", "PMI")}) {
        if (!text_of(environment, variable).empty()) {
            return name;
        }
    }
    return "";
}

/// Returns the number of tasks on this host. It is computed from a text such as "2(x3),1" and this host's number in the
/// step.
std::optional<int> local_tasks(const Environment& environment, int tasks) {
    std::string text = text_of(environment, "SLURM_STEP_TASKS_PER_NODE");
    text = text.empty() ? text_of(environment, "SLURM_TASKS_PER_NODE") : text;
    const Result<std::vector<int>> counts = expand_slurm_counts(text);
    const std::optional<int> host = number_of(environment, "SLURM_NODEID");
    if (counts.is_ok() && host && *host >= 0 && static_cast<std::size_t>(*host) < counts.value().size()) {
        return counts.value()[static_cast<std::size_t>(*host)];
    }
    return number_of(environment, "SLURM_STEP_NUM_NODES") == 1 ? std::optional(tasks) : std::nullopt;
}

/// Lets the ranks find each other through a socket, which is possible if all of them are on one host.
void rendezvous_without_mpi(SrunTask& task, const Environment& environment, int rank, int tasks) {
    const std::string local = std::to_string(number_of(environment, "SLURM_LOCALID").value_or(rank));
    // Rank 0 replaces the asterisk in the socket's name by random digits. Without these digits, every user of the host
    // could compute the name, and could listen at this socket before rank 0 does.
    const std::string place = fmt::format("@rueda-slurm-{}-{}.{}-*", ::geteuid(), text_of(environment, "SLURM_JOB_ID"),
                                          text_of(environment, "SLURM_STEP_ID"));
    task.environment.insert(task.environment.end(), {{"RUEDA_CONTROL_PLANE", "socket"},
                                                     {"RUEDA_RANK", std::to_string(rank)},
                                                     {"RUEDA_SIZE", std::to_string(tasks)},
                                                     {"RUEDA_LOCAL_RANK", local},
                                                     {"RUEDA_LOCAL_SIZE", std::to_string(tasks)},
                                                     {"RUEDA_RENDEZVOUS", place}});
    task.reasons.push_back(fmt::format("on one host the ranks meet at {}", place));
}

/// Returns the name of the host of task 0. Tasks are distributed in the order of the step's hosts, so task 0 is on the
/// first host.
std::string first_host_of_step(const Environment& environment) {
    std::string text = text_of(environment, "SLURM_STEP_NODELIST");
    text = text.empty() ? text_of(environment, "SLURM_JOB_NODELIST") : text;
    const Result<std::vector<std::string>> names = expand_slurm_names(text);
    return names.is_ok() && !names.value().empty() ? names.value().front() : "";
}

/// Returns a port that all tasks of the step can compute without communication. If Slurm has reserved ports for the
/// step (MpiParams=ports=), the result is the first reserved port. Otherwise the port is computed from the numbers of
/// the job and the step, so steps of one job, and jobs with similar numbers, get different ports. The ports are below
/// 32768, because Linux gives the ports from 32768 on to programs that ask for any port. kCount is the number of ports
/// to choose from. The job's number is multiplied by 61, which has no common factor with kCount. So steps with the same
/// number in two jobs get the same port only if the jobs' numbers are equal modulo kCount.
std::uint16_t master_port_of_step(const Environment& environment) {
    constexpr std::uint64_t kFirst = 12000;
    constexpr std::uint64_t kCount = 20000;
    const std::string reserved = text_of(environment, "SLURM_STEP_RESV_PORTS");  // for example "12005-12008"
    if (const auto port = base::parse_integer<std::uint16_t>(reserved.substr(0, reserved.find_first_of("-,")))) {
        return *port;
    }
    const auto job = base::parse_integer<std::uint64_t>(text_of(environment, "SLURM_JOB_ID")).value_or(0);
    const auto step = base::parse_integer<std::uint64_t>(text_of(environment, "SLURM_STEP_ID")).value_or(0);
    return static_cast<std::uint16_t>(kFirst + (job % kCount * 61 + step % kCount) % kCount);
}

/// Sets the variables of torchrun. No process reserves the port, because each ruedarun replaces itself by the program.
void set_torch_variables(SrunTask& task, const Options& options, const Environment& environment, int rank, int tasks) {
    if (!options.torch_variables) {
        task.reasons.emplace_back("the variables of torchrun are not set: --no-torch-variables");
        return;
    }
    TorchPlace place;
    place.rank = rank;
    place.ranks = tasks;
    place.local_rank = number_of(environment, "SLURM_LOCALID").value_or(rank);
    place.local_ranks = local_tasks(environment, tasks).value_or(tasks);
    place.host = number_of(environment, "SLURM_NODEID").value_or(0);
    place.hosts = number_of(environment, "SLURM_STEP_NUM_NODES").value_or(1);
    const std::string host = place.hosts == 1 ? kMasterOfOneHost : first_host_of_step(environment);
    const MasterAddress master{host, host.empty() ? std::uint16_t{0} : master_port_of_step(environment)};
    for (const std::string& name : names_of_outer_torchrun(environment)) {
        task.environment.push_back({name, std::nullopt});
    }
    for (EnvironmentChange& change : torch_variables(place, master)) {
        std::erase_if(task.environment, [&](const EnvironmentChange& other) { return other.name == change.name; });
        task.environment.push_back(std::move(change));
    }
    task.reasons.emplace_back("RANK, WORLD_SIZE and the other variables of torchrun: from Slurm's");
}

/// Decides how the ranks find each other.
Status choose_rendezvous(SrunTask& task, const Options& options, const Environment& environment, int rank, int tasks) {
    const std::string pmi = pmi_of(environment);
    if (!options.no_mpi && !pmi.empty()) {
        task.reasons.push_back(fmt::format("srun set up {}: MPI gives the ranks", pmi));
        return {};
    }
    if (number_of(environment, "SLURM_STEP_NUM_NODES").value_or(1) == 1) {
        task.reasons.emplace_back(options.no_mpi ? "without MPI: --no-mpi"
                                                 : "srun set up no PMI, so MPI has no ranks here");
        rendezvous_without_mpi(task, environment, rank, tasks);
        return {};
    }
    if (options.no_mpi) {
        return failure(
            ErrorCode::invalid_argument,
            "srun has started {} tasks on several hosts, and between them srun's tasks need MPI, but --no-mpi is set; "
            "leave it out, or run ruedarun --no-mpi once inside the allocation, without srun",
            tasks);
    }
    return failure(ErrorCode::invalid_argument,
                   "srun has started {} tasks on several hosts without PMI, so MPI has no ranks; use srun "
                   "--mpi=pmix (srun --mpi=list shows what there is), or run ruedarun once, without srun",
                   tasks);
}

/// Fails if the options ask for a different job than the one that srun has started.
Status check_that_job_is_meant(const Options& options, const Environment& environment, int rank, int tasks) {
    if ((options.ranks && *options.ranks != tasks) || !options.hosts.empty() || !options.hostfile.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "srun has started {} tasks, and ruedarun is task {} of them: each would start a job of its own; "
                       "run ruedarun once inside the allocation, without srun, or leave out -np and hosts",
                       tasks, rank);
    }
    const std::optional<int> here = local_tasks(environment, tasks);
    if (options.per_host && here && *here != *options.per_host) {
        return failure(ErrorCode::invalid_argument,
                       "--processes-per-host is {}, but srun has started {} {} on this host; leave it out, and say "
                       "srun --ntasks-per-node={}",
                       *options.per_host, *here, *here == 1 ? "task" : "tasks", *options.per_host);
    }
    return {};
}

/// Returns the user's options that have no effect if srun starts the ranks. The text for each option says how to get
/// the same effect with srun.
std::vector<std::string> options_without_effect(const Options& options) {
    std::vector<std::string> found;
    const auto add = [&found](bool is_given, const char* text) {
        if (is_given) {
            found.emplace_back(text);
        }
    };
    add(!options.output_dir.empty(), "--output-dir (srun --output=rank.%t.out does it)");
    add(options.max_restarts > 0, "--max-restarts (sbatch --requeue does it)");
    add(options.grace.has_value(), "--grace (srun --wait does it)");
    add(options.gpus_per_rank.has_value(), "--gpus-per-rank (srun --gpus-per-task does it)");
    add(!options.mpi_args.empty(), "--mpi-args (there is no mpirun; -x OMPI_MCA_... does it)");
    add(!options.interfaces.empty(), "--network-interfaces (a setting of MPI does it)");
    add(options.ssh_port.has_value(), "--ssh-port");
    add(!options.ssh_identity.empty(), "--ssh-identity-file");
    return found;
}

std::vector<std::string> notes_of(const Options& options) {
    std::vector<std::string> notes = options.notes;
    if (const std::vector<std::string> found = options_without_effect(options); !found.empty()) {
        notes.push_back(
            fmt::format("without effect here, as srun starts and ends the ranks: {}", fmt::join(found, ", ")));
    }
    return notes;
}

void choose_threads(SrunTask& task, const Options& options, const Environment& environment, int tasks,
                    const RankCores& cores) {
    if (!options.thread_variables) {
        task.reasons.push_back(fmt::format("{} is not set: --no-thread-variables", kThreadVariables.front()));
        return;
    }
    const auto is_set = [&](std::string_view name) {
        return !text_of(environment, name).empty() ||
               std::any_of(options.exported.begin(), options.exported.end(),
                           [name](const ExportedVariable& variable) { return variable.name == name; });
    };
    const std::optional<int> given = number_of(environment, "SLURM_CPUS_PER_TASK");
    const int local = std::max(1, local_tasks(environment, tasks).value_or(1));
    const RankCores usable =
        given ? RankCores{static_cast<double>(*given) * local, static_cast<double>(*given)} : cores;
    const std::vector<EnvironmentChange> settings = thread_settings(usable, local, is_set);
    if (settings.empty()) {
        return;
    }
    const std::string text = settings_text(settings);
    const char* const origin = given ? "SLURM_CPUS_PER_TASK" : "cores divided by ranks of the host";
    task.reasons.push_back(fmt::format("{}: {}", text, origin));
    task.about_threads = fmt::format("threads of each rank: {} ({})", text, origin);
    task.environment.insert(task.environment.end(), settings.begin(), settings.end());
}

}  // namespace

bool is_in_shell_of_srun(const Environment& environment) {
    return !text_of(environment, "SLURM_STEP_ID").empty() && !text_of(environment, "SLURM_PTY_PORT").empty();
}

Result<std::optional<SrunTask>> find_srun_task(const Options& options, const Environment& environment,
                                               const RankCores& cores) {
    const std::optional<int> rank = number_of(environment, "SLURM_PROCID");
    const std::optional<int> tasks = number_of(environment, "SLURM_STEP_NUM_TASKS");
    const bool in_step = !text_of(environment, "SLURM_STEP_ID").empty();
    if (!in_step || !rank || !tasks || *tasks < 2 || *rank < 0 || *rank >= *tasks) {
        return std::optional<SrunTask>();
    }
    if (is_in_shell_of_srun(environment)) {
        // `srun --pty` connects only task 0 to the terminal. In task 0, srun runs a shell, and the user may type
        // ruedarun in this shell. In any other task, srun has started ruedarun directly, which is an error.
        if (*rank != 0) {
            return failure(ErrorCode::invalid_argument,
                           "this is task {} of {} of srun --pty, which gives a terminal to task 0 alone; start the "
                           "ranks by srun without --pty, or run ruedarun in the shell that srun --pty opens",
                           *rank, *tasks);
        }
        return std::optional<SrunTask>();
    }
    RUEDA_RETURN_IF_FAILED(check_that_job_is_meant(options, environment, *rank, *tasks));
    SrunTask task;
    task.reasons.push_back(
        fmt::format("srun has started {} tasks; this is rank {}, and ruedarun becomes the program", *tasks, *rank));
    RUEDA_RETURN_IF_FAILED(choose_rendezvous(task, options, environment, *rank, *tasks));
    choose_threads(task, options, environment, *tasks, cores);
    set_torch_variables(task, options, environment, *rank, *tasks);
    if (options.share_gpu) {
        task.environment.push_back({kShareGpuVariable, "1"});
    }
    for (const ExportedVariable& variable : options.exported) {
        Result<std::string> value = exported_value(variable, environment);
        RUEDA_RETURN_IF_FAILED(value.status());
        std::erase_if(task.environment, [&](const EnvironmentChange& change) { return change.name == variable.name; });
        task.environment.push_back({variable.name, std::move(value).value()});
    }
    if (*rank == 0) {
        task.notes = notes_of(options);
    } else {
        task.about_threads.clear();  // one rank prints this line
    }
    return std::optional(std::move(task));
}

}  // namespace rueda::launcher
