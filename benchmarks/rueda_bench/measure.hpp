// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "candidate.hpp"

namespace rueda::bench {

/// Of one candidate in one case. An iteration's time is that of its slowest rank.
struct Row {
    std::string candidate;
    Case c;
    std::vector<double> microseconds;  ///< one per iteration, sorted
    std::uint64_t wrong = 0;           ///< elements, on any rank, that were not as expected

    /// 0 … 1: 0.5 is the median.
    [[nodiscard]] double quantile(double q) const;
    /// Bytes of input over the median time.
    [[nodiscard]] double algorithm_gigabytes_per_second() const;
    /// What crosses between ranks per rank, over the median time: 2(n−1)/n of the input for allreduce, 1 for broadcast,
    /// n−1 for allgather, (n−1)/n for reducescatter and alltoall, 2 for a message there and back.
    [[nodiscard]] double bus_gigabytes_per_second(int size) const;
};

struct Plan {
    double seconds_per_case = 2;
    std::uint64_t most_iterations = 2000;
    std::uint64_t fewest_iterations = 7;
};

/// All candidates that can do the case, in turns: in every iteration each rewrites its input, lines up, and is timed.
/// Collective; every rank returns the same rows.
[[nodiscard]] std::vector<Row> measure(const Case& c, const std::vector<std::unique_ptr<Candidate>>& candidates,
                                       const Job& job, const Plan& plan);

}  // namespace rueda::bench
