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

/// The variables that limit the threads of libraries. If a library starts a thread for each core in every rank, the
/// host has ranks × cores threads, and all of them become slow. MKL and OpenBLAS also obey the first variable, if their
/// own variable is not set.
inline constexpr std::array<std::string_view, 3> kThreadVariables = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                                                     "OPENBLAS_NUM_THREADS"};

/// A rank's share of the cores of its host, in whole threads and at least one.
[[nodiscard]] int threads_of_a_rank(double cores, int ranks_of_the_host);

/// The number of ranks on this host, from the variables that Open MPI or Hydra sets for each rank.
[[nodiscard]] std::optional<int> ranks_of_this_host(const Environment& environment);

/// The variables that depend on the host of a rank: the number of threads, and whether the rank yields its core while
/// it waits in Open MPI. The supervisor on that host sets them, because it knows the host. Variables that are already
/// set are not changed, because the user or ruedarun has set them.
[[nodiscard]] std::vector<EnvironmentChange> host_settings(const Environment& environment, double cores,
                                                           int ranks_of_the_host);

}  // namespace rueda::launcher
