// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rueda/replicas.h"
#include "rueda/rueda.hpp"
#include "rueda/training/device_replicas.hpp"
#include "training/replicas/replica_runs.hpp"

namespace rueda::training {

/// The implementation of DeviceReplicas. A rueda_device_team adds up the gradients of all replicas, and writes the sums
/// into the gradients of replica 0. Allreduces in the team's stream then reduce these sums among the processes. At the
/// end, the team copies the results to all replicas.
///
/// Threads: those of Replicas.
class DeviceReplicaTeam final : public ReplicaRuns {
public:
    DeviceReplicaTeam(std::vector<DeviceReplica> replicas, const DeviceReplicasOptions& options);
    ~DeviceReplicaTeam() override;

    void broadcast(int root);
    void copy_to_replicas();
    void synchronize();

private:
    struct Free {
        void operator()(rueda_device_team* team) const noexcept { rueda_device_team_free(team); }
    };
    /// The state of one gradient in this step. While the replicas run, the thread of each replica uses only its own
    /// element of `arrived`. Only the thread of the replica that arrives last uses the other fields.
    struct Progress {
        std::vector<std::uint8_t> arrived{};  ///< for each replica: whether the team knows that the gradient is ready
        bool is_summed = false;
        Handle reduction{};  ///< the allreduce among the processes; empty if it was not started
    };

    void begin_run() override;
    void arrive(std::size_t parameter, int replica) override;
    void announce_anyway(std::size_t parameter) override;
    void drop_gradients() noexcept override;

    void start_reduction(std::size_t parameter);
    void copy_values();

    const DeviceReplicasOptions options_;
    const std::vector<DeviceParameter> parameters_;  ///< of replica 0
    /// The list of the team's tensors has first all gradients, and then all values.
    std::unique_ptr<rueda_device_team, Free> team_;
    DeviceStream stream_{};           ///< the team's stream on the GPU of replica 0
    std::vector<Progress> progress_;  ///< for each parameter
};

}  // namespace rueda::training
