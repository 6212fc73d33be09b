// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/selection/launch_facts.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include "base/numbers.hpp"
#include "collectives/mpi/load_plugin.hpp"

namespace rueda::collectives {
namespace {

std::optional<std::int32_t> number_of(const base::EnvironmentLookup& environment, const char* name) {
    const auto text = environment.value(name);
    return text ? base::parse_integer<std::int32_t>(*text) : std::nullopt;
}

bool is_folder(const std::string& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

/// Whether the PMIx server (the launcher's service for its ranks) still runs. The server's folder exists only as long
/// as the server runs.
bool is_pmix_alive(const base::EnvironmentLookup& environment) {
    const auto folder = environment.value("PMIX_SERVER_TMPDIR");
    return folder && is_folder(*folder);
}

bool is_connected_socket(int fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
}

/// Finds out from environment variables which launcher started this process.
LaunchFacts launcher_of(const base::EnvironmentLookup& environment) {
    LaunchFacts facts;
    const bool has_pmix_folder = environment.value("PMIX_SERVER_TMPDIR").has_value();
    if (const auto size = number_of(environment, "OMPI_COMM_WORLD_SIZE");
        size && (!has_pmix_folder || is_pmix_alive(environment))) {
        facts.launcher = "mpirun (OMPI_COMM_WORLD_SIZE)";
        facts.job_rank = number_of(environment, "OMPI_COMM_WORLD_RANK");
        facts.job_size = size;
        facts.abi = MpiAbi::open_mpi;
    } else if (const auto fd = number_of(environment, "PMI_FD"); fd && *fd >= 0 && is_connected_socket(*fd)) {
        facts.launcher = "an MPI launcher (PMI_FD)";
        facts.job_rank = number_of(environment, "PMI_RANK");
        facts.job_size = number_of(environment, "PMI_SIZE");
        // MPI_LOCALNRANKS means that the launcher is Hydra, which belongs to MPICH and Intel MPI. Without this variable
        // the MPI is not known: the launcher may be Slurm, which can also start programs that use Open MPI.
        if (environment.value("MPI_LOCALNRANKS")) {
            facts.abi = MpiAbi::mpich;
        }
    } else if (environment.value("PMIX_RANK") && is_pmix_alive(environment)) {
        facts.launcher = "an MPI launcher (PMIX_RANK)";
        facts.job_rank = number_of(environment, "PMIX_RANK");
        facts.job_size = number_of(environment, "SLURM_STEP_NUM_TASKS");
    }
    return facts;
}

/// Returns the secret of the rendezvous over TCP. In an elastic job, each generation has a different secret. Suppose
/// that the host of a process was unreachable for a while, and the job has begun a new generation. The process then
/// cannot connect to ranks of the new generation.
std::string secret_of(const base::EnvironmentLookup& environment) {
    std::string secret = environment.value("RUEDA_RENDEZVOUS_SECRET").value_or("");
    const std::string generation = environment.value("RUEDARUN_GENERATION").value_or("");
    return secret.empty() || generation.empty() ? secret : secret + ":" + generation;
}

}  // namespace

LaunchFacts read_launch_facts(const base::EnvironmentLookup& environment) {
    LaunchFacts facts = launcher_of(environment);
    facts.rendezvous_secret = secret_of(environment);
    const LoadedMpi loaded = find_loaded_mpi();
    facts.mpi_initialized = loaded.is_initialized;
    // If an MPI is initialised in this process, its ABI is used. If an MPI is only loaded, the ABI of the launcher's
    // MPI has priority.
    if (loaded.is_initialized || !facts.abi) {
        facts.abi = loaded.abi;
    }
    return facts;
}

}  // namespace rueda::collectives
