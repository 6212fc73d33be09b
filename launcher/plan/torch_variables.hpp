// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// Where a rank stands in the job, in torchrun's words. A host is what torchrun calls a group or a node.
struct TorchPlace {
    int rank = 0;
    int ranks = 1;
    int local_rank = 0;
    int local_ranks = 1;
    int host = 0;
    int hosts = 1;
};

/// Where rank 0 listens for the others. With port 0 nobody has chosen a place, and nothing is said about it.
struct MasterAddress {
    std::string host;
    std::uint16_t port = 0;
};

/// The variables by which PyTorch (env://), accelerate, transformers and Lightning recognise that they were started as
/// one rank of several. GROUP_RANK is torchrun's word for the number of the host, NODE_RANK Lightning's.
[[nodiscard]] std::vector<EnvironmentChange> torch_variables(const TorchPlace& place, const MasterAddress& master);

/// All names that torch_variables() may set.
inline constexpr std::array<std::string_view, 9> kTorchVariables = {
    "RANK",      "WORLD_SIZE",       "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "GROUP_RANK",
    "NODE_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/// The names in an environment that torchrun sets, or that ruedarun sets for it: kTorchVariables, TORCHELASTIC_*, and
/// three that begin with ROLE_. If a job is started from a rank of another job, their values describe the outer job:
/// TORCHELASTIC_USE_AGENT_STORE, for example, says that torchrun itself listens at MASTER_PORT.
[[nodiscard]] std::vector<std::string> names_of_outer_torchrun(const Environment& environment);

/// The same variables as far as mpirun has told this rank enough (Open MPI's OMPI_COMM_WORLD_*, Hydra's PMI_*): for a
/// rank that no ruedarun watches. Nobody has chosen a place for MASTER_ADDR and MASTER_PORT then. Which host is which
/// is known only where all ranks are on this one.
[[nodiscard]] std::vector<EnvironmentChange> torch_variables_of_mpirun(const Environment& environment);

/// Changes that set a variable, as one text for a supervisor: lines NAME=VALUE.
[[nodiscard]] std::string encode_variables(const std::vector<EnvironmentChange>& changes);
/// Lines without a '=' are passed over.
[[nodiscard]] std::vector<EnvironmentChange> decode_variables(std::string_view text);

/// The places of all ranks, from the key of the host of each (network.hpp): ranks of a host are numbered in their
/// order, hosts in the order of their first ranks.
[[nodiscard]] std::vector<TorchPlace> torch_places(const std::vector<std::string>& host_of_rank);

}  // namespace rueda::launcher
