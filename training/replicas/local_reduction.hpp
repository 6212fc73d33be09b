// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

namespace rueda::training {

/// How LocalReduction divides the additions among the replicas.
struct LocalDivision {
    int group = 1;  ///< the replicas in a group; with the number of all replicas, there is one group
    /// The elements of a piece. If a gradient has more elements, the threads of all replicas add up its pieces. Only
    /// possible with one group.
    std::size_t piece = std::numeric_limits<std::size_t>::max();
};

/// Adds up the gradients of the replicas of one process. The sum replaces the gradient of replica 0. The order of the
/// summands is fixed: the numbers of the replicas (with groups: first within each group), so the bits do not depend on
/// which thread adds, or when.
///
/// Threads: each replica calls arrive() and help_until_done() on its own thread. One thread calls begin() while no
/// replica runs. Any thread may call stop().
class LocalReduction {
public:
    struct Gradient {
        std::vector<float*> replicas;  ///< where each replica has this gradient
        std::size_t count = 0;         ///< its elements
    };
    /// Called with the number of a gradient when its sum is complete, by the thread that completed it.
    using Completed = std::function<void(std::size_t)>;

    /// There is at least one replica. All gradients have the same number of replicas.
    LocalReduction(std::vector<Gradient> gradients, int replicas, const LocalDivision& division, Completed completed);

    /// Begins a pass, in which each replica has each gradient once.
    void begin();
    /// Says that replica `replica` has gradient `gradient`. Does not wait for other replicas, but may add up gradients
    /// and call `completed`.
    void arrive(std::size_t gradient, int replica);
    /// Adds up pieces until all gradients are complete, or stop() was called. With undivided gradients, returns at
    /// once.
    void help_until_done();
    /// Makes help_until_done() return on all threads, because some gradients will never arrive.
    void stop();

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

    std::mutex mutex_;                 // protects the members below
    std::condition_variable changed_;  // help_until_done() waits for it; arrive(), add_piece() and stop() wake it
    std::vector<Progress> progress_;
    std::deque<std::size_t> open_;     ///< gradients that all replicas have, and of which a piece is not taken
    std::size_t open_pieces_ = 0;      ///< the pieces of these gradients that are not taken
    std::size_t completed_count_ = 0;  ///< the gradients whose pieces are all added
    bool stopped_ = false;
};

}  // namespace rueda::training
