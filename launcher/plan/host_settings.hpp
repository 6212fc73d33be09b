// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// The variables that limit the number of threads of libraries. Without a limit, every rank would start a thread for
/// each core, and the host would have ranks × cores threads, all of them slow. MKL and OpenBLAS also obey the first
/// variable if their own variable is not set.
inline constexpr std::array<std::string_view, 3> kThreadVariables = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                                                     "OPENBLAS_NUM_THREADS"};

/// The time in milliseconds for which a thread without work spins before it sleeps. Only the OpenMP libraries of Intel
/// and LLVM read this variable. With their default of 200, a rank that waits for other ranks would keep its cores
/// busy all the time. The variable is set only if a rank has several threads.
///
/// KMP_AFFINITY, which pins threads to cores, is not set. ruedarun lets each rank use all cores of the host, so all
/// ranks would pin their threads to the same cores. The main thread would be pinned, too, and threads that it starts
/// later, such as those of a data loader, would share its core.
inline constexpr std::string_view kBlockTimeVariable = "KMP_BLOCKTIME";

/// All variables that thread_settings() may set.
inline constexpr std::array<std::string_view, 4> kThreadSettings = {kThreadVariables[0], kThreadVariables[1],
                                                                    kThreadVariables[2], kBlockTimeVariable};

/// The cores of a rank.
struct RankCores {
    double together = 1;  ///< the number of cores that all ranks of the host may use together
    double own = 1;       ///< the number of cores that this rank may use; smaller if the launcher binds the ranks
};

/// Finds the cores of this process, and those of all ranks on this host. The parent of this process must be the
/// launcher. The launcher may have bound this process to some cores, but the launcher's own affinity mask has all cores
/// of the job on this host. `environment` is the environment of this process; see within_slurm_job().
[[nodiscard]] RankCores find_rank_cores(const Environment& environment);

/// Returns the cores without those that Slurm has not given to the job (SLURM_CPUS_ON_NODE). Under srun, the launcher
/// is slurmstepd, whose affinity mask may have all cores of the host.
[[nodiscard]] RankCores within_slurm_job(RankCores cores, const Environment& environment);

/// Returns the number of threads for each rank: `cores.together` divided by the number of ranks, but at most
/// `cores.own`, and at least 1.
[[nodiscard]] int threads_of_a_rank(const RankCores& cores, int ranks_of_the_host);

/// Returns the variables for the threads of libraries. `is_set` says whether the user has set a variable. If the user
/// has set OMP_NUM_THREADS, the result is empty.
[[nodiscard]] std::vector<EnvironmentChange> thread_settings(const RankCores& cores, int ranks_of_the_host,
                                                             const std::function<bool(std::string_view)>& is_set);

/// Returns the settings as "OMP_NUM_THREADS=4 KMP_BLOCKTIME=1".
[[nodiscard]] std::string settings_text(const std::vector<EnvironmentChange>& settings);

/// Returns the number of ranks on this host, from variables that Open MPI or Hydra (MPICH's launcher) sets for each
/// rank.
[[nodiscard]] std::optional<int> ranks_of_this_host(const Environment& environment);

/// Returns the variables that depend on the host of a rank: thread_settings(), and whether the rank yields its core
/// while it waits in Open MPI. The supervisor (the parent of a rank) on that host sets them, because it knows the host.
/// Variables that are already set stay unchanged, because the user or ruedarun has set them.
[[nodiscard]] std::vector<EnvironmentChange> host_settings(const Environment& environment, const RankCores& cores,
                                                           int ranks_of_the_host);

}  // namespace rueda::launcher
