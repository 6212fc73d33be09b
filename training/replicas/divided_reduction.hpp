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
    int group = 1;  ///< the replicas in a group; with the number of all replicas, there is one group
    /// The elements of a piece. If a gradient has more elements, the threads of all replicas add up its pieces. Only
    /// possible with one group.
    std::size_t piece = std::numeric_limits<std::size_t>::max();
};

/// Adds up whole gradients, pieces of gradients, or the gradients of groups of replicas. The order of the summands is
/// the numbers of the replicas (with groups: first within each group).
class DividedReduction final : public LocalReduction {
public:
    /// There is at least one replica. All gradients have the same number of replicas.
    DividedReduction(std::vector<Gradient> gradients, int replicas, const LocalDivision& division, Completed completed);

    void begin() override;
    void arrive(std::size_t gradient, int replica) override;
    /// With undivided gradients, returns at once.
    void help_until_done(int replica) override;
    void stop() override;

private:
    /// The state of a gradient in this pass.
    struct Progress {
        std::vector<int> arrived;  ///< for each group, the replicas that have the gradient
        int groups = 0;            ///< the groups whose sum is complete
        std::size_t taken = 0;     ///< the pieces that a thread has taken
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
        changed_;  // help_until_done() waits; arrive(), add_piece(), complete_group(), stop() wake it
    std::vector<Progress> progress_;
    std::deque<std::size_t> open_;     ///< gradients that all replicas have, and of which a piece is not taken
    std::size_t open_pieces_ = 0;      ///< the pieces of these gradients that are not taken
    std::size_t completed_count_ = 0;  ///< the gradients whose pieces are all added
    bool stopped_ = false;
};

}  // namespace rueda::training
