// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// Libraries that start a thread for each core in every rank run ranks × cores threads, and all of them crawl. MKL and
/// OpenBLAS follow the first where that alone is set.
inline constexpr std::array<std::string_view, 3> kThreadVariables = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                                                     "OPENBLAS_NUM_THREADS"};

/// A rank's share of its host's cores, in whole threads; at least one.
[[nodiscard]] int threads_of_a_rank(double cores, int ranks_of_the_host);

/// How many ranks share this host, as Open MPI or Hydra tells each of them.
[[nodiscard]] std::optional<int> ranks_of_this_host(const std::map<std::string, std::string>& environment);

/// What depends on the host that a rank runs on, and only its supervisor there can know: how many threads, and whether
/// the rank yields its core while it waits in Open MPI. What is set already was set by the user, or by ruedarun where
/// it knew the host, and stays.
[[nodiscard]] std::vector<EnvironmentChange> host_settings(const std::map<std::string, std::string>& environment,
                                                           double cores, int ranks_of_the_host);

}  // namespace rueda::launcher
