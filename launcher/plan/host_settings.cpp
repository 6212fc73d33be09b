// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/host_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/system/cores.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

namespace {

/// The variable by which mpirun tells its ranks the parameter mpi_yield_when_idle.
constexpr const char* kYieldVariable = "OMPI_MCA_mpi_yield_when_idle";

}  // namespace

RankCores find_rank_cores(const Environment& environment) {
    const std::uint32_t own = base::affinity_cores();
    const std::uint32_t of_launcher = base::affinity_cores_of(::getppid()).value_or(own);
    return within_slurm_job({.together = base::usable_cores(base::read_small_file, std::max(own, of_launcher)),
                             .own = static_cast<double>(own)},
                            environment);
}

RankCores within_slurm_job(RankCores cores, const Environment& environment) {
    const auto of_job = base::parse_integer<int>(text_of(environment, "SLURM_CPUS_ON_NODE"));
    if (of_job && *of_job > 0) {
        cores.together = std::min<double>(cores.together, *of_job);
    }
    return cores;
}

int threads_of_a_rank(const RankCores& cores, int ranks_of_the_host) {
    const int share = static_cast<int>(cores.together) / std::max(1, ranks_of_the_host);
    return std::max(1, std::min(share, static_cast<int>(cores.own)));
}

std::vector<EnvironmentChange> thread_settings(const RankCores& cores, int ranks_of_the_host,
                                               const std::function<bool(std::string_view)>& is_set) {
    std::vector<EnvironmentChange> changes;
    if (is_set(kThreadVariables.front())) {
        return changes;
    }
    const auto add = [&](std::string_view name, std::string value) {
        if (!is_set(name)) {
            changes.push_back({std::string(name), std::move(value)});
        }
    };
    const int threads = threads_of_a_rank(cores, ranks_of_the_host);
    for (const std::string_view name : kThreadVariables) {
        add(name, std::to_string(threads));
    }
    if (threads > 1) {
        add(kBlockTimeVariable, "1");
    }
    return changes;
}

std::string settings_text(const std::vector<EnvironmentChange>& settings) {
    std::string text;
    for (const EnvironmentChange& setting : settings) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", setting.name, setting.value.value_or(""));
    }
    return text;
}

std::optional<int> ranks_of_this_host(const Environment& environment) {
    for (const char* const name : {kAgentRanksVariable, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
        const std::optional<int> ranks = base::parse_integer<int>(text_of(environment, name));
        if (ranks && *ranks > 0) {
            return ranks;
        }
    }
    return std::nullopt;
}

std::vector<EnvironmentChange> host_settings(const Environment& environment, const RankCores& cores,
                                             int ranks_of_the_host) {
    std::vector<EnvironmentChange> changes =
        thread_settings(cores, ranks_of_the_host,
                        [&environment](std::string_view name) { return !text_of(environment, name).empty(); });
    const bool is_open_mpi = environment.contains("OMPI_COMM_WORLD_RANK");
    if (is_open_mpi && !environment.contains(kYieldVariable)) {
        // kYieldVariable is set (to 0) even if the ranks need not yield their cores. Otherwise ranks of Open MPI would
        // always yield, because ruedarun uses --oversubscribe.
        changes.push_back({kYieldVariable, ranks_of_the_host > cores.together ? "1" : "0"});
    }
    return changes;
}

}  // namespace rueda::launcher
