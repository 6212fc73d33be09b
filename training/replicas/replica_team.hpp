// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/training/distributed_optimizer.hpp"
#include "rueda/training/replicas.hpp"
#include "training/replicas/local_reduction.hpp"
#include "training/replicas/replica_threads.hpp"

namespace rueda::training {

/// The implementation of Replicas. LocalReduction adds up the gradients of the replicas, into those of replica 0. A
/// DistributedOptimizer, which knows only replica 0, reduces them among the processes and updates its parameters. For
/// the optimizer, the K replicas look like K accumulated passes, so it divides an average by K.
///
/// Threads: those of Replicas. The threads of the replicas call gradient_ready() and stopped().
class ReplicaTeam {
public:
    ReplicaTeam(const OptimizerRule& rule, std::vector<std::vector<Parameter>> replicas,
                const ReplicasOptions& options);

    [[nodiscard]] int count() const noexcept { return count_; }
    [[nodiscard]] int first_worker() const noexcept { return position_ * count_; }
    [[nodiscard]] int workers() const noexcept { return processes_ * count_; }
    [[nodiscard]] DistributedOptimizer& optimizer() noexcept { return optimizer_; }
    [[nodiscard]] const DistributedOptimizer& optimizer() const noexcept { return optimizer_; }
    [[nodiscard]] bool stopped() const noexcept {
        // relaxed: the value only tells a replica to end early. What fail() wrote before its store is read after the
        // threads have ended their work.
        return stopped_.load(std::memory_order_relaxed);
    }

    void broadcast(int root);
    void copy_to_replicas();
    void run(const Replicas::Function& pass);
    void on_each(const Replicas::Function& work);
    void gradient_ready(int replica, std::size_t parameter);
    void synchronize();
    void step(double learning_rate, double gradient_factor);
    void skip();

private:
    /// The work that the replicas do on their threads.
    enum class Work : std::uint8_t {
        none,       ///< nothing
        other,      ///< work without gradients
        early_run,  ///< a run before the last one of a step, whose gradients are only accumulated
        last_run,   ///< the last run of a step, whose gradients are reduced
    };

    void run_all(const Replicas::Function& function, Work work);
    void run_one(const Replicas::Function& function, int index);
    void fail(int index, ErrorCode code, std::string_view text) noexcept;
    [[nodiscard]] Status agree(Work work);
    void announce(std::size_t parameter);
    [[nodiscard]] bool announce_the_rest();
    void end_failed_step() noexcept;
    void check_idle() const;
    void check_runs() const;
    void for_each_parameter(const std::function<void(std::size_t)>& action);
    void copy_values(std::size_t parameter);

    const ReplicasOptions options_;
    const int count_;
    int position_ = 0;   ///< of this process in the process set
    int processes_ = 1;  ///< in the process set
    DistributedOptimizer optimizer_;
    std::vector<std::vector<std::span<float>>>
        copies_;                        ///< for each parameter, the values that replicas have as copies
    std::vector<std::size_t> by_size_;  ///< the parameters, the largest first
    std::size_t elements_ = 0;          ///< of all parameters of one replica
    LocalReduction reduction_;

    std::int64_t runs_ = 0;  ///< the runs of this step so far
    Work work_ = Work::none;
    std::vector<std::vector<std::uint8_t>> ready_;  ///< [replica][parameter]; only the replica's thread uses its vector

    std::mutex announcing_;                // DistributedOptimizer may be used by one thread at a time
    std::vector<std::int64_t> announced_;  ///< for each parameter, the calls of optimizer_.gradient_ready() in this run

    std::atomic<bool> stopped_{false};  ///< fail() stores it, stopped() loads it; run_all() resets it between the works
    std::mutex failing_;
    Status failure_;                  ///< of the replica that failed first
    PreparedFailure without_memory_;  ///< becomes failure_ if no memory is left for the text

    ReplicaThreads threads_;  ///< the last member, so that the threads end before what they use
};

}  // namespace rueda::training
