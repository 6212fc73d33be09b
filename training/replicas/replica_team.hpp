// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "rueda/training/distributed_optimizer.hpp"
#include "rueda/training/replicas.hpp"
#include "training/replicas/local_reduction.hpp"
#include "training/replicas/replica_runs.hpp"

namespace rueda::training {

/// The implementation of Replicas. A LocalReduction adds up the gradients of all replicas, and writes the sums into the
/// gradients of replica 0. A DistributedOptimizer knows only replica 0: it reduces these sums among the processes, and
/// updates the parameters of replica 0. For the optimizer, the K replicas look like K accumulated passes, so it divides
/// an average by K.
///
/// Threads: those of Replicas.
class ReplicaTeam final : public ReplicaRuns {
public:
    ReplicaTeam(const OptimizerRule& rule, std::vector<std::vector<Parameter>> replicas,
                const ReplicasOptions& options);

    [[nodiscard]] DistributedOptimizer& optimizer() noexcept { return optimizer_; }
    [[nodiscard]] const DistributedOptimizer& optimizer() const noexcept { return optimizer_; }

    void broadcast(int root);
    void copy_to_replicas();
    void synchronize();
    void step(double learning_rate, double gradient_factor);
    void skip();

private:
    void begin_run() override;
    void arrive(std::size_t parameter, int replica) override { reduction_->arrive(parameter, replica); }
    void help(int replica) override { reduction_->help_until_done(replica); }
    void stop_help() override { reduction_->stop(); }
    void announce_anyway(std::size_t parameter) override { announce(parameter); }
    void drop_gradients() noexcept override { optimizer_.end_failed_step(); }

    void announce(std::size_t parameter);
    void for_each_parameter(const std::function<void(std::size_t)>& action);
    void copy_values(std::size_t parameter);

    const ReplicasOptions options_;
    DistributedOptimizer optimizer_;
    std::vector<std::vector<std::span<float>>>
        copies_;                        ///< for each parameter, the values of the replicas that have their own copy
    std::vector<std::size_t> by_size_;  ///< the parameters, the largest first
    std::size_t elements_ = 0;          ///< the number of elements of all parameters of one replica
    std::unique_ptr<LocalReduction> reduction_;

    std::mutex announcing_;  // DistributedOptimizer may be used by one thread at a time
    /// for each parameter, the number of calls of optimizer_.gradient_ready() in this run
    std::vector<std::int64_t> announced_;
};

}  // namespace rueda::training
