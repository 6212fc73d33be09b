// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "training/replicas/local_reduction.hpp"

namespace rueda::training {

/// Adds up gradients in a ring (the first half of a ring allreduce; Patarasu and Yuan 2009). A gradient is cut into one
/// piece for each of the K replicas. The sum of piece p begins as the piece of replica p. It then goes from each
/// replica to the next one, which adds its own piece; such an addition is a *hop*. After K − 1 hops the sum is
/// complete, and the last hop writes it into the gradient of replica 0. So each replica only reads its own gradient and
/// that of its neighbour, and each element is read 2 (K − 1) times and written K − 1 times.
///
/// The thread of a replica makes the hops into this replica: when the replica has a gradient, and at the end of its
/// pass. A hop is possible as soon as both replicas have the gradient, and the sum has come to the first of them. The
/// threads do not work in rounds, so no thread waits for another one within its pass.
class RingReduction final : public LocalReduction {
public:
    /// There are at least two replicas.
    RingReduction(std::vector<Gradient> gradients, int replicas, Completed completed);

    void begin() override;
    void arrive(std::size_t gradient, int replica) override;
    void help_until_done(int replica) override;
    void stop() override;

private:
    struct Hop {
        std::size_t gradient;
        std::size_t piece;
    };
    /// The hops that write into one replica in this pass, in the order in which they became possible.
    struct Hops {
        std::vector<Hop> possible;  ///< this vector has enough memory for all hops of a pass
        std::size_t taken = 0;
    };
    /// The state of a gradient in this pass.
    struct Progress {
        std::vector<std::uint8_t> arrived;  ///< for each replica, whether it has the gradient
        std::vector<std::size_t> hops;      ///< for each piece, the number of hops that were made
        std::size_t complete = 0;           ///< the number of pieces whose sum is complete
    };

    [[nodiscard]] std::size_t first_of(std::size_t gradient, std::size_t piece) const noexcept;
    void allow_next_hop(std::size_t gradient, std::size_t piece);
    void add_hop(const Hop& hop, std::size_t made) const;
    void make_hops(std::unique_lock<std::mutex>& lock, std::size_t replica);
    void end_hop(std::unique_lock<std::mutex>& lock, const Hop& hop);

    const std::vector<Gradient> gradients_;
    const std::size_t replicas_;
    const Completed completed_;

    std::mutex mutex_;                 // protects the members below
    std::condition_variable changed_;  // help_until_done() waits on it; arrive(), end_hop() and stop() notify it
    std::vector<Progress> progress_;
    std::vector<Hops> hops_;           ///< for each replica
    std::size_t completed_count_ = 0;  ///< the number of gradients whose sum is complete
    bool stopped_ = false;
};

}  // namespace rueda::training
