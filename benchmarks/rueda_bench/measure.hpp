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
    std::vector<double> microseconds;  ///< one per iteration, sorted
    std::uint64_t wrong = 0;           ///< number of elements, on all ranks, that were not as expected

    /// `q` is between 0 and 1; 0.5 gives the median.
    [[nodiscard]] double quantile(double q) const;
    /// Bytes of input divided by the median time.
    [[nodiscard]] double algorithm_gigabytes_per_second() const;
    /// Bytes that each rank exchanges with others, divided by the median time. The bytes are 2(n−1)/n of the input for
    /// allreduce, 1 for broadcast, n−1 for allgather, (n−1)/n for reducescatter and alltoall, and 2 for a message there
    /// and back.
    [[nodiscard]] double bus_gigabytes_per_second(int size) const;
};

struct Plan {
    double seconds_per_case = 2;
    std::uint64_t most_iterations = 2000;
    std::uint64_t fewest_iterations = 7;
};

/// Measures all candidates that can do the case. In every iteration each candidate rewrites its input, lines up, and is
/// timed. Collective; every rank returns the same rows.
[[nodiscard]] std::vector<Row> measure(const Case& c, const std::vector<std::unique_ptr<Candidate>>& candidates,
                                       const Job& job, const Plan& plan);

}  // namespace rueda::bench
