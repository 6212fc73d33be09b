// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/srun_task.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/numbers.hpp"

namespace rueda::launcher {

namespace {

using Environment = std::map<std::string, std::string>;

std::string text_of(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
}

std::optional<int> number_of(const Environment& environment, const std::string& name) {
    return base::parse_integer<int>(text_of(environment, name));
}

/// What srun --mpi=… has set up for MPI in this task; empty: nothing.
std::string pmi_of(const Environment& environment) {
    for (const auto& [variable, name] :
         {std::pair("PMIX_RANK", "PMIx"), std::pair("PMI_RANK", "PMI"), std::pair("PMI_FD", "PMI")}) {
        if (!text_of(environment, variable).empty()) {
            return name;
        }
    }
    return "";
}

/// The tasks of this host, from "2(x3),1" and the number of the host among those of the step.
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

/// Ranks of one host can meet without MPI.
void meet_without_mpi(SrunTask& task, const Environment& environment, int rank, int tasks) {
    const std::string local = std::to_string(number_of(environment, "SLURM_LOCALID").value_or(rank));
    const std::string place =
        fmt::format("@rueda-slurm-{}.{}", text_of(environment, "SLURM_JOB_ID"), text_of(environment, "SLURM_STEP_ID"));
    task.environment.insert(task.environment.end(), {{"RUEDA_CONTROL_PLANE", "socket"},
                                                     {"RUEDA_RANK", std::to_string(rank)},
                                                     {"RUEDA_SIZE", std::to_string(tasks)},
                                                     {"RUEDA_LOCAL_RANK", local},
                                                     {"RUEDA_LOCAL_SIZE", std::to_string(tasks)},
                                                     {"RUEDA_RENDEZVOUS", place}});
    task.reasons.push_back(
        fmt::format("srun set up no PMI, so MPI has no ranks here; on one host the ranks meet at {}", place));
}

}  // namespace

Result<std::optional<SrunTask>> find_srun_task(const Options& options, const Environment& environment, double cores) {
    const std::optional<int> rank = number_of(environment, "SLURM_PROCID");
    const std::optional<int> tasks = number_of(environment, "SLURM_STEP_NUM_TASKS");
    const bool in_step = !text_of(environment, "SLURM_STEP_ID").empty();
    if (!in_step || !rank || !tasks || *tasks < 2 || *rank < 0 || *rank >= *tasks) {
        return std::optional<SrunTask>();
    }
    if ((options.ranks && *options.ranks != *tasks) || !options.hosts.empty() || !options.hostfile.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "srun has started {} tasks, and ruedarun is task {} of them: each would start a job of its own; "
                       "run ruedarun once inside the allocation, without srun, or leave out -np and hosts",
                       *tasks, *rank);
    }
    SrunTask task;
    task.reasons.push_back(
        fmt::format("srun has started {} tasks; this is rank {}, and ruedarun becomes the program", *tasks, *rank));
    const std::string pmi = pmi_of(environment);
    if (!pmi.empty()) {
        task.reasons.push_back(fmt::format("srun set up {}: MPI gives the ranks", pmi));
    } else if (number_of(environment, "SLURM_STEP_NUM_NODES").value_or(1) == 1) {
        meet_without_mpi(task, environment, *rank, *tasks);
    } else {
        return failure(ErrorCode::invalid_argument,
                       "srun has started {} tasks on several hosts without PMI, so MPI has no ranks; use srun "
                       "--mpi=pmix (srun --mpi=list shows what there is), or run ruedarun once, without srun",
                       *tasks);
    }
    if (text_of(environment, "OMP_NUM_THREADS").empty()) {
        const std::optional<int> given = number_of(environment, "SLURM_CPUS_PER_TASK");
        const int local = std::max(1, local_tasks(environment, *tasks).value_or(1));
        const int threads = std::max(1, given ? *given : static_cast<int>(cores) / local);
        task.environment.push_back({"OMP_NUM_THREADS", std::to_string(threads)});
        task.reasons.push_back(fmt::format("OMP_NUM_THREADS={}: {}", threads,
                                           given ? "SLURM_CPUS_PER_TASK" : "cores divided by ranks of the host"));
    }
    for (const ExportedVariable& variable : options.exported) {
        if (variable.value) {
            task.environment.push_back({variable.name, variable.value});
        }
    }
    return std::optional(std::move(task));
}

}  // namespace rueda::launcher
