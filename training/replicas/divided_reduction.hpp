// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <limits>
#include <mutex>
#include <vector>

#include "training/replicas/local_reduction.hpp"

namespace rueda::training {

/// How DividedReduction divides the additions among the replicas.
struct LocalDivision {
    /// the number of replicas in a group; there is only one group if this is the number of all replicas
    int group = 1;
    /// The maximum number of elements of a piece. A gradient with more elements is cut into pieces, which the threads
    /// of all replicas add up. This is possible only with one group.
    std::size_t piece = std::numeric_limits<std::size_t>::max();
};

/// Adds up the gradients of the replicas: as a whole, in pieces, or first within groups of replicas. The summands are
/// added in the order of the replicas' numbers. With groups, the groups' sums are then added in the groups' order.
class DividedReduction final : public LocalReduction {
public:
    /// `replicas` is the number of replicas, at least 1. Each of `gradients` must have this number of addresses.
    DividedReduction(std::vector<Gradient> gradients, int replicas, const LocalDivision& division, Completed completed);

    void begin() override;
    void arrive(std::size_t gradient, int replica) override;
    /// Returns at once if the gradients are not divided into pieces.
    void help_until_done(int replica) override;
    void stop() override;

private:
    /// The state of a gradient in this pass.
    struct Progress {
        std::vector<int> arrived;  ///< for each group, the number of replicas that have the gradient
        int groups = 0;            ///< the number of groups whose sum is complete
        std::size_t taken = 0;     ///< the number of pieces that a thread has taken
        std::size_t added = 0;     ///< the pieces that are complete
    };

    [[nodiscard]] int group_begin(int group) const noexcept { return group * division_.group; }
    [[nodiscard]] int group_end(int group) const noexcept;
    [[nodiscard]] std::size_t pieces(std::size_t gradient) const noexcept;
    void complete_group(std::size_t gradient, int group);
    void add_piece(std::unique_lock<std::mutex>& lock);

    const std::vector<Gradient> gradients_;
    const int replicas_;
    const LocalDivision division_;
    const int groups_;
    const Completed completed_;

    std::mutex mutex_;  // protects the members below
    std::condition_variable
        changed_;  // help_until_done() waits on it; arrive(), add_piece(), complete_group(), stop() notify it
    std::vector<Progress> progress_;
    /// gradients that all replicas have, and that still have pieces which no thread has taken
    std::deque<std::size_t> open_;
    std::size_t open_pieces_ = 0;      ///< the number of pieces in `open_` that no thread has taken
    std::size_t completed_count_ = 0;  ///< the number of gradients whose pieces are all added
    bool stopped_ = false;
};

}  // namespace rueda::training
