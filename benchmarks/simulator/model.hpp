// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// A simulation of the negotiation in jobs that are too large to run: the workload, the network's costs, and the
/// results.
namespace rueda::simulator {

using Nanoseconds = std::int64_t;

/// The costs of single actions. The defaults are a cluster with 10 Gbit/s and a fast MPI; see docs/simulator.md.
struct Costs {
    Nanoseconds latency = 5'000;         ///< time of a message from one host to another
    Nanoseconds local_latency = 500;     ///< time of a message between processes of a host
    double bytes_per_nanosecond = 1.25;  ///< rate of each host's outgoing link
    Nanoseconds send = 1'000;            ///< CPU time of the sender per message
    Nanoseconds receive = 1'000;         ///< CPU time of the receiver per message
    Nanoseconds item = 400;              ///< CPU time for each announcement or decision that a node writes or processes

    [[nodiscard]] Nanoseconds transfer(std::size_t bytes) const {
        return static_cast<Nanoseconds>(static_cast<double>(bytes) / bytes_per_nanosecond);
    }
};

/// A job whose ranks announce the same tensors in every step.
struct Job {
    std::uint32_t hosts = 8;
    std::uint32_t ranks_per_host = 8;
    std::uint32_t tensors = 400;
    std::uint64_t tensor_bytes = 256 * 1024;
    std::uint64_t fusion_threshold_bytes = 64 * 1024 * 1024;
    Nanoseconds backward = 100'000'000;  ///< time in which the tensors become ready one after another
    Nanoseconds skew = 1'000'000;        ///< the maximum delay of a rank at the beginning of a step
    Nanoseconds noise = 50'000;          ///< a rank's tensor becomes ready up to this much later than in the plan
    double stragglers = 0.001;           ///< fraction of the ranks that are late in a step
    Nanoseconds straggler_delay = 10'000'000;
    std::uint32_t radix = 8;
    Nanoseconds cycle = 1'000'000;        ///< Horovod's cycle time
    std::uint32_t cache_capacity = 1024;  ///< number of tensors that Horovod's cache can hold
    std::uint64_t seed = 1;

    [[nodiscard]] std::uint32_t ranks() const { return hosts * ranks_per_host; }
};

/// An event of the workload: a tensor is ready on all ranks of a host.
struct Arrival {
    Nanoseconds at = 0;
    std::uint32_t tensor = 0;
};

/// The times at which the tensors become ready in a step, counted from the step's beginning.
struct Arrivals {
    static constexpr Nanoseconds kBin = 50'000;

    std::vector<std::vector<Arrival>> by_host;  ///< each host's arrivals in the order of time
    std::vector<Nanoseconds> last;              ///< the time at which each tensor is ready on all ranks
    std::vector<std::uint64_t> counts;          ///< how many of the ranks' tensors become ready in each bin of time
};

[[nodiscard]] Arrivals arrivals_of(const Job& job, std::uint32_t step);

/// The measurements of one step.
struct StepResult {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t most_messages = 0;  ///< largest number of messages that one node sent and received
    Nanoseconds busiest = 0;          ///< CPU time of the busiest node
    Nanoseconds coordinator = 0;      ///< CPU time of the coordinating node: the root of Rueda's tree, or rank 0 with
                                      ///< Horovod's cycles
    Nanoseconds work = 0;             ///< CPU time of all nodes together
    std::vector<Nanoseconds> delays;  ///< the delays of all tensors in ascending order; a delay begins when the
                                      ///< tensor is ready on all ranks, and ends when all hosts know this
    std::uint64_t rounds = 0;         ///< number of cycles or batches
    bool exactly_once = true;         ///< whether every host got each tensor once, and all hosts got the tensors in the
                                      ///< same order

    [[nodiscard]] Nanoseconds delay(double quantile) const {
        const auto last = static_cast<double>(delays.size() - 1);
        return delays[static_cast<std::size_t>(quantile * last + 0.5)];
    }
};

/// Simulates the tree of leaders: the shipped TreeNode over a modelled network. The simulation counts no time for the
/// negotiation within a host. Returns a result for each step. In the first step all names are new.
[[nodiscard]] std::vector<StepResult> simulate_tree(const Job& job, const Costs& costs, std::uint32_t steps);
[[nodiscard]] std::uint32_t depth_of_tree(const Job& job);

/// Simulates Horovod's negotiation: a formula gives the time of each cycle. Every rank takes part in every cycle, and
/// rank 0 coordinates. The ranks announce a cached tensor by a bit in a bit vector instead of a request.
[[nodiscard]] std::vector<StepResult> simulate_cycles(const Job& job, const Costs& costs, std::uint32_t steps);
[[nodiscard]] std::uint32_t depth_of_cycles(const Job& job);

}  // namespace rueda::simulator
