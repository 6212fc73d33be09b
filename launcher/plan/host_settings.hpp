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

/// If a library starts a thread for each core in every rank, there are ranks × cores threads, and all become slow. MKL
/// and OpenBLAS follow the first variable if only that one is set.
inline constexpr std::array<std::string_view, 3> kThreadVariables = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                                                     "OPENBLAS_NUM_THREADS"};

/// A rank's share of the cores of its host, in whole threads and at least one.
[[nodiscard]] int threads_of_a_rank(double cores, int ranks_of_the_host);

/// The number of ranks on this host, as Open MPI or Hydra tells each of them.
[[nodiscard]] std::optional<int> ranks_of_this_host(const Environment& environment);

/// The variables that depend on the host of a rank, which only the supervisor there knows: the number of threads, and
/// whether the rank yields its core while it waits in Open MPI. Variables that are already set stay: the user set them,
/// or ruedarun did because it knew the host.
[[nodiscard]] std::vector<EnvironmentChange> host_settings(const Environment& environment, double cores,
                                                           int ranks_of_the_host);

}  // namespace rueda::launcher
