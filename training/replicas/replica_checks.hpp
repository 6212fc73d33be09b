// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <vector>

#include "rueda/training/device_replicas.hpp"
#include "rueda/training/optimizer.hpp"
#include "rueda/training/replicas.hpp"

namespace rueda::training {

/// Checks the options that DistributedOptimizer does not check. Throws InvalidArgument, which names the option.
void check_replicas_options(const ReplicasOptions& options, int replicas);

/// Checks that all replicas have the same parameters, and that no gradient is shared. Also checks that each replica
/// either shares the values of replica 0 or has memory of its own for them. Throws InvalidArgument, which names the
/// replica and the parameter.
void check_replicas(std::span<const std::vector<Parameter>> replicas);

/// Checks that all replicas have parameters with the same names in the same order, and that no two gradients begin at
/// the same address of one GPU. (rueda_device_team_create checks types and sizes.) Throws InvalidArgument, which names
/// the replica and the parameter.
void check_device_replicas(std::span<const DeviceReplica> replicas);

}  // namespace rueda::training
