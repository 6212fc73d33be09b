// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
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

/// Returns the number of threads for each rank: its share of the host's cores, at least 1.
[[nodiscard]] int threads_of_a_rank(double cores, int ranks_of_the_host);

/// Returns the number of ranks on this host, from variables that Open MPI or Hydra (MPICH's launcher) sets for each
/// rank.
[[nodiscard]] std::optional<int> ranks_of_this_host(const Environment& environment);

/// Returns the variables that depend on the host of a rank: the number of threads, and whether the rank yields its core
/// while it waits in Open MPI. The supervisor (the parent of a rank) on that host sets them, because it knows the host.
/// Variables that are already set stay unchanged, because the user or ruedarun has set them.
[[nodiscard]] std::vector<EnvironmentChange> host_settings(const Environment& environment, double cores,
                                                           int ranks_of_the_host);

}  // namespace rueda::launcher
