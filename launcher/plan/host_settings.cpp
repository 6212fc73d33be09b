// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/host_settings.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "launcher/options/variables.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

namespace {

/// The variable by which mpirun tells its ranks the parameter mpi_yield_when_idle.
constexpr const char* kYieldVariable = "OMPI_MCA_mpi_yield_when_idle";

void add_threads(std::vector<EnvironmentChange>& changes, const Environment& environment, int threads) {
    if (!text_of(environment, kThreadVariables.front()).empty()) {
        return;
    }
    for (const std::string_view name : kThreadVariables) {
        if (text_of(environment, name).empty()) {
            changes.push_back({std::string(name), std::to_string(threads)});
        }
    }
}

}  // namespace

int threads_of_a_rank(double cores, int ranks_of_the_host) {
    return std::max(1, static_cast<int>(cores) / std::max(1, ranks_of_the_host));
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

std::vector<EnvironmentChange> host_settings(const Environment& environment, double cores, int ranks_of_the_host) {
    std::vector<EnvironmentChange> changes;
    add_threads(changes, environment, threads_of_a_rank(cores, ranks_of_the_host));
    const bool is_open_mpi = environment.contains("OMPI_COMM_WORLD_RANK");
    if (is_open_mpi && !environment.contains(kYieldVariable)) {
        // This variable is set even if the ranks need not yield. Without it, ranks of Open MPI would always yield,
        // because ruedarun uses --oversubscribe.
        changes.push_back({kYieldVariable, ranks_of_the_host > cores ? "1" : "0"});
    }
    return changes;
}

}  // namespace rueda::launcher
