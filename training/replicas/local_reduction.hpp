// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace rueda::training {

/// Adds up the gradients of the replicas of one process. The sum replaces the gradient of replica 0. The order of the
/// summands is fixed, so the bits do not depend on which thread adds, or when.
///
/// Threads: each replica calls arrive() and help_until_done() on its own thread. One thread calls begin() while no
/// replica runs. Any thread may call stop().
class LocalReduction {
public:
    struct Gradient {
        std::vector<float*> replicas;  ///< for each replica, the address of this gradient
        std::size_t count = 0;         ///< the number of its elements
    };
    /// Called with the number of a gradient when its sum is complete, by the thread that completed it.
    using Completed = std::function<void(std::size_t)>;

    LocalReduction() = default;
    LocalReduction(const LocalReduction&) = delete;
    LocalReduction& operator=(const LocalReduction&) = delete;
    virtual ~LocalReduction() = default;

    /// Begins a pass, in which each replica calls arrive() once for each gradient. Allocates no memory, because an
    /// error here would end the run on this process only.
    virtual void begin() = 0;
    /// Says that replica `replica` has gradient `gradient`. Does not wait for other replicas, but may add up gradients
    /// and call the function `Completed`.
    virtual void arrive(std::size_t gradient, int replica) = 0;
    /// Adds up gradients until all of them are complete, or stop() was called. May return earlier if the calls of
    /// arrive() do all the work.
    virtual void help_until_done(int replica) = 0;
    /// Makes help_until_done() return on all threads, because some gradients will never arrive.
    virtual void stop() = 0;
};

/// Adds up the elements [first, first + count) of all sources, from the first source to the last. Writes the sums to
/// the same elements of `to`, which may be one of the sources.
void add_up(std::span<float* const> sources, float* to, std::size_t first, std::size_t count);

}  // namespace rueda::training
