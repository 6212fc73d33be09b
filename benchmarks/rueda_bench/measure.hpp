// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "candidate.hpp"

namespace rueda::bench {

/// The results of one candidate in one case. An iteration's time is that of its slowest rank.
struct Row {
    std::string candidate;
    Case c;
    std::vector<double> microseconds;  ///< one for each iteration, sorted
    std::uint64_t wrong = 0;           ///< number of wrong elements on all ranks

    /// Returns the quantile q of the times; 0.5 is the median.
    [[nodiscard]] double quantile(double q) const;
    /// Returns the input's bytes divided by the median time.
    [[nodiscard]] double algorithm_gigabytes_per_second() const;
    /// Returns the bytes that each rank exchanges with other ranks, divided by the median time. These bytes are the
    /// input's size times 2(n−1)/n for allreduce, 1 for broadcast, n−1 for allgather, (n−1)/n for reducescatter and
    /// alltoall, and 2 for a message and its reply.
    [[nodiscard]] double bus_gigabytes_per_second(int size) const;
};

struct Plan {
    double seconds_per_case = 2;
    std::uint64_t most_iterations = 2000;
    std::uint64_t fewest_iterations = 7;
};

/// Measures all candidates that can run the case. In every iteration, each candidate rewrites its input, waits for the
/// other ranks, and is timed. All ranks must call this function, and get the same rows.
[[nodiscard]] std::vector<Row> measure(const Case& c, const std::vector<std::unique_ptr<Candidate>>& candidates,
                                       const Job& job, const Plan& plan);

}  // namespace rueda::bench
