// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Who is ready, in jobs too large to have: what the job does, what the network costs, and what is measured.
namespace rueda::simulator {

using Nanoseconds = std::int64_t;

/// What something costs. The defaults are those of a cluster with 10 Gbit/s and a fast MPI; docs/simulator.md.
struct Costs {
    Nanoseconds latency = 5'000;         ///< from one host to another, one way
    Nanoseconds local_latency = 500;     ///< from one process of a host to another
    double bytes_per_nanosecond = 1.25;  ///< of each host's way out
    Nanoseconds send = 1'000;            ///< of the sender's CPU, per message
    Nanoseconds receive = 1'000;         ///< of the receiver's CPU, per message
    Nanoseconds item = 400;              ///< of CPU, per announcement or decision that is written, or taken in

    [[nodiscard]] Nanoseconds transfer(std::size_t bytes) const {
        return static_cast<Nanoseconds>(static_cast<double>(bytes) / bytes_per_nanosecond);
    }
};

/// Ranks that announce the same tensors, step after step.
struct Job {
    std::uint32_t hosts = 8;
    std::uint32_t ranks_per_host = 8;
    std::uint32_t tensors = 400;
    std::uint64_t tensor_bytes = 256 * 1024;
    std::uint64_t fusion_threshold_bytes = 64 * 1024 * 1024;
    Nanoseconds backward = 100'000'000;  ///< the tensors become ready one after the other in this time
    Nanoseconds skew = 1'000'000;        ///< a rank begins a step later than others by up to this
    Nanoseconds noise = 50'000;          ///< and is late with each tensor by up to this
    double stragglers = 0.001;           ///< share of ranks that are late in a step
    Nanoseconds straggler_delay = 10'000'000;
    std::uint32_t radix = 8;
    Nanoseconds cycle = 1'000'000;        ///< of Horovod
    std::uint32_t cache_capacity = 1024;  ///< of Horovod, tensors
    std::uint64_t seed = 1;

    [[nodiscard]] std::uint32_t ranks() const { return hosts * ranks_per_host; }
};

/// A tensor is ready on all ranks of a host.
struct Arrival {
    Nanoseconds at = 0;
    std::uint32_t tensor = 0;
};

/// When what becomes ready in a step, from the beginning of that step.
struct Arrivals {
    static constexpr Nanoseconds kBin = 50'000;

    std::vector<std::vector<Arrival>> by_host;  ///< each in the order of time
    std::vector<Nanoseconds> last;              ///< by tensor: on all ranks
    std::vector<std::uint64_t> counts;          ///< of ranks' tensors, by bin of time
};

[[nodiscard]] Arrivals arrivals_of(const Job& job, std::uint32_t step);

/// What was measured in a step.
struct StepResult {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t most_messages = 0;  ///< that one node sent and received
    Nanoseconds busiest = 0;          ///< CPU time of the node that worked most
    Nanoseconds coordinator = 0;      ///< of the root, or of rank 0
    Nanoseconds work = 0;             ///< CPU time of all nodes together
    std::vector<Nanoseconds> delays;  ///< by tensor: from ready everywhere to known everywhere, ascending
    std::uint64_t rounds = 0;         ///< cycles, or batches
    bool exactly_once = true;         ///< each host got each tensor once, all in the same order

    [[nodiscard]] Nanoseconds delay(double quantile) const {
        const auto last = static_cast<double>(delays.size() - 1);
        return delays[static_cast<std::size_t>(quantile * last + 0.5)];
    }
};

/// The leaders' tree: the TreeNode that ships, over a modelled network. A host's own negotiation costs nothing.
/// Returns a result for each step; names are new in the first.
[[nodiscard]] std::vector<StepResult> simulate_tree(const Job& job, const Costs& costs, std::uint32_t steps);
[[nodiscard]] std::uint32_t depth_of_tree(const Job& job);

/// Horovod's scheme: every rank takes part in every cycle, rank 0 coordinates; known tensors are a bit vector. A
/// formula per cycle, no state machines.
[[nodiscard]] std::vector<StepResult> simulate_cycles(const Job& job, const Costs& costs, std::uint32_t steps);
[[nodiscard]] std::uint32_t depth_of_cycles(const Job& job);

}  // namespace rueda::simulator
