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

/// The position of a rank in the job, in the terms of torchrun, which calls a host a group or a node.
struct TorchPlace {
    int rank = 0;
    int ranks = 1;
    int local_rank = 0;
    int local_ranks = 1;
    int host = 0;
    int hosts = 1;
};

/// The value of MASTER_ADDR for a job whose ranks are all on one host.
inline constexpr const char* kMasterOfOneHost = "127.0.0.1";

/// The address at which rank 0 listens for the other ranks. Port 0 means that there is no address. In this case
/// MASTER_ADDR and MASTER_PORT are not set.
struct MasterAddress {
    std::string host;
    std::uint16_t port = 0;
};

/// Returns the variables by which PyTorch (env://), accelerate, transformers and Lightning know which rank they are.
/// torchrun calls the number of the host GROUP_RANK, and Lightning calls it NODE_RANK.
[[nodiscard]] std::vector<EnvironmentChange> torch_variables(const TorchPlace& place, const MasterAddress& master);

/// All names that torch_variables() may set.
inline constexpr std::array<std::string_view, 9> kTorchVariables = {
    "RANK",      "WORLD_SIZE",       "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "GROUP_RANK",
    "NODE_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/// Returns the names of variables of an environment that torchrun or ruedarun may have set: kTorchVariables,
/// TORCHELASTIC_*, and three names that begin with ROLE_. If a rank of another job starts this job, these variables
/// describe the other job and must be removed. For example, TORCHELASTIC_USE_AGENT_STORE says that torchrun itself
/// listens at MASTER_PORT.
[[nodiscard]] std::vector<std::string> names_of_outer_torchrun(const Environment& environment);

/// Returns the variables of torch_variables() for a rank that was started without ruedarun. The values come from
/// mpirun's variables (Open MPI's OMPI_COMM_WORLD_*, Hydra's PMI_*); variables without a known value are left out.
/// MASTER_ADDR and MASTER_PORT are not set, because nobody has chosen an address. Variables that contain the
/// number of a host are set only if all ranks are on this host.
[[nodiscard]] std::vector<EnvironmentChange> torch_variables_of_mpirun(const Environment& environment);

/// Writes the changes as lines NAME=VALUE, which are sent to a supervisor (the parent of a rank). Changes that remove a
/// variable are left out.
[[nodiscard]] std::string encode_variables(const std::vector<EnvironmentChange>& changes);
/// Parses the lines of encode_variables(). Lines without a '=' are ignored.
[[nodiscard]] std::vector<EnvironmentChange> decode_variables(std::string_view text);

/// Computes the positions of all ranks from their host_key() (network.hpp). Ranks of a host are numbered in ascending
/// order, and hosts in the order of their first ranks.
[[nodiscard]] std::vector<TorchPlace> torch_places(const std::vector<std::string>& host_of_rank);

}  // namespace rueda::launcher
