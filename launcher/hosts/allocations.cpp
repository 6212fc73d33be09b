// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Finds the hosts that Slurm and SageMaker describe in the environment.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

namespace {

std::string value_of(const Environment& environment, std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (std::string text = text_of(environment, name); !text.empty()) {
            return text;
        }
    }
    return "";
}

/// Reads the variable `name` as a whole number, which must be at least `least`. Returns nothing if the variable is not
/// set.
Result<std::optional<int>> number_of(const Environment& environment, const char* name, int least) {
    const std::string text = value_of(environment, {name});
    if (text.empty()) {
        return std::optional<int>();
    }
    const std::optional<int> number = base::parse_integer<int>(text);
    if (!number || *number < least) {
        return failure(ErrorCode::invalid_argument, "{} is {}; expected a whole number from {} on", name,
                       base::quote(text), least);
    }
    return number;
}

/// Returns for each host how many tasks its cores allow: its cores divided by the cores of a task. The result is empty
/// if Slurm does not report the number of cores.
Result<std::vector<int>> slurm_places(const Environment& environment, std::size_t hosts) {
    const std::string cores = value_of(environment, {"SLURM_JOB_CPUS_PER_NODE"});
    if (cores.empty()) {
        return std::vector<int>();
    }
    Result<std::vector<int>> counts = expand_slurm_counts(cores);
    if (!counts.is_ok() || counts.value().size() != hosts) {
        return failure(ErrorCode::invalid_argument,
                       "SLURM_JOB_CPUS_PER_NODE is {}; expected numbers of cores for the {} hosts of "
                       "SLURM_JOB_NODELIST; say the hosts with -H",
                       base::quote(cores), hosts);
    }
    Result<std::optional<int>> per_task = number_of(environment, "SLURM_CPUS_PER_TASK", 1);
    RUEDA_RETURN_IF_FAILED(per_task.status());
    for (int& count : counts.value()) {
        count = std::max(1, count / per_task.value().value_or(1));
    }
    return counts;
}

/// Returns the number of ranks for each host of the allocation, usually from SLURM_TASKS_PER_NODE. But inside a step,
/// this variable describes the step, which may have fewer hosts than the allocation. In this case the result is
/// `places`: for each host, the number of tasks that its cores allow.
Result<std::vector<int>> slurm_slots(const Environment& environment, std::size_t hosts,
                                     const std::vector<int>& places) {
    const std::string tasks = value_of(environment, {"SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"});
    if (!tasks.empty()) {
        Result<std::vector<int>> counts = expand_slurm_counts(tasks);
        if (!counts.is_ok()) {
            return failure(ErrorCode::invalid_argument, "SLURM_TASKS_PER_NODE: {}", counts.status().message());
        }
        if (counts.value().size() == hosts) {
            return counts;
        }
        if (counts.value().size() == 1 && value_of(environment, {"SLURM_TASKS_PER_NODE"}).empty()) {
            return std::vector<int>(hosts, counts.value().front());
        }
        if (value_of(environment, {"SLURM_STEP_ID"}).empty()) {
            return failure(ErrorCode::invalid_argument,
                           "SLURM_TASKS_PER_NODE is {}, for {} hosts, but SLURM_JOB_NODELIST has {}; expected as many; "
                           "say the hosts with -H",
                           base::quote(tasks), counts.value().size(), hosts);
        }
    }
    return places.empty() ? std::vector<int>(hosts, 1) : places;
}

/// Returns the smallest number of cores that a host has.
std::optional<int> slurm_cores(const Environment& environment) {
    const Result<std::vector<int>> counts = expand_slurm_counts(value_of(environment, {"SLURM_JOB_CPUS_PER_NODE"}));
    if (!counts.is_ok() || counts.value().empty()) {
        return std::nullopt;
    }
    return *std::min_element(counts.value().begin(), counts.value().end());
}

}  // namespace

Result<std::optional<HostList>> hosts_of_slurm(const Environment& environment) {
    const std::string names = value_of(environment, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    if (names.empty()) {
        return std::optional<HostList>();
    }
    const Result<std::vector<std::string>> expanded = expand_slurm_names(names);
    if (!expanded.is_ok()) {
        return failure(ErrorCode::invalid_argument, "SLURM_JOB_NODELIST: {}", expanded.status().message());
    }
    const Result<std::vector<int>> places = slurm_places(environment, expanded.value().size());
    RUEDA_RETURN_IF_FAILED(places.status());
    const Result<std::vector<int>> slots = slurm_slots(environment, expanded.value().size(), places.value());
    RUEDA_RETURN_IF_FAILED(slots.status());
    // Inside a step, SLURM_NTASKS describes the step and not the allocation. So it is ignored if this process runs
    // inside a step.
    const bool in_step = !value_of(environment, {"SLURM_STEP_ID"}).empty();
    Result<std::optional<int>> ranks = number_of(environment, "SLURM_NTASKS", 1);
    RUEDA_RETURN_IF_FAILED(ranks.status());
    HostList list;
    for (std::size_t i = 0; i < expanded.value().size(); ++i) {
        // With `salloc -N 2 --exclusive`, Slurm plans one task for each host, but the user owns all cores of the hosts.
        // So -np may ask for more ranks than there are tasks.
        const int most = places.value().empty() ? 0 : std::max(slots.value()[i], places.value()[i]);
        list.hosts.push_back({expanded.value()[i], slots.value()[i], most});
    }
    list.origin = fmt::format("the Slurm allocation {}", value_of(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}));
    list.ranks = in_step ? std::nullopt : ranks.value();
    list.cores = slurm_cores(environment);
    if (const std::string own = value_of(environment, {"SLURMD_NODENAME"}); !own.empty()) {
        list.own = own;
    }
    return std::optional(std::move(list));
}

Result<std::optional<HostList>> hosts_of_sagemaker(const Environment& environment) {
    const std::string text = value_of(environment, {"SM_HOSTS"});
    if (text.empty()) {
        return std::optional<HostList>();
    }
    const nlohmann::json names = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool is_list = names.is_array() && !names.empty() && names.size() <= kMostHosts &&
                         std::all_of(names.begin(), names.end(), [](const auto& name) { return name.is_string(); });
    if (!is_list) {
        return failure(ErrorCode::invalid_argument, R"(SM_HOSTS is {}; expected names such as ["algo-1","algo-2"])",
                       base::quote(text));
    }
    Result<std::optional<int>> gpus = number_of(environment, "SM_NUM_GPUS", 0);
    RUEDA_RETURN_IF_FAILED(gpus.status());
    Result<std::optional<int>> cores = number_of(environment, "SM_NUM_CPUS", 1);
    RUEDA_RETURN_IF_FAILED(cores.status());
    HostList list;
    list.origin = "SageMaker";
    list.cores = cores.value();
    if (const std::string own = value_of(environment, {"SM_CURRENT_HOST"}); !own.empty()) {
        list.own = own;
    }
    for (const auto& name : names) {
        const Result<std::vector<Host>> host = parse_host_option(name.get<std::string>());
        if (!host.is_ok() || host.value().size() != 1 || host.value().front().slots != 0) {
            return failure(ErrorCode::invalid_argument, "SM_HOSTS has {}; expected the name of a host",
                           base::quote(name.get<std::string>()));
        }
        list.hosts.push_back({host.value().front().name, std::max(1, gpus.value().value_or(0)), 0});
    }
    return std::optional(std::move(list));
}

}  // namespace rueda::launcher
