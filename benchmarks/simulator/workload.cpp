// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <random>

#include "benchmarks/simulator/model.hpp"

namespace rueda::simulator {
namespace {

using Random = std::mt19937_64;

/// Returns a random time of at most `most`. std::uniform_int_distribution would differ between standard libraries.
Nanoseconds up_to(Random& random, Nanoseconds most) {
    return most <= 0 ? 0 : static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(most + 1));
}

bool with_probability(Random& random, double share) {
    constexpr double kParts = 1 << 30;
    return static_cast<double>(random() % (1U << 30)) < share * kParts;
}

}  // namespace

Arrivals arrivals_of(const Job& job, std::uint32_t step) {
    Random random(job.seed * 1'000'003 + step);
    Arrivals arrivals;
    arrivals.by_host.resize(job.hosts);
    arrivals.last.assign(job.tensors, 0);
    const Nanoseconds latest = job.backward + job.skew + job.noise + job.straggler_delay;
    arrivals.counts.assign(static_cast<std::size_t>(latest / Arrivals::kBin) + 1, 0);
    for (std::vector<Arrival>& host : arrivals.by_host) {
        for (std::uint32_t tensor = 0; tensor < job.tensors; ++tensor) {
            host.push_back({0, tensor});
        }
        for (std::uint32_t local = 0; local < job.ranks_per_host; ++local) {
            Nanoseconds begin = up_to(random, job.skew);
            begin += with_probability(random, job.stragglers) ? job.straggler_delay : 0;
            for (Arrival& arrival : host) {
                const Nanoseconds computed = job.backward * (arrival.tensor + 1) / job.tensors;
                const Nanoseconds at = begin + computed + up_to(random, job.noise);
                arrival.at = std::max(arrival.at, at);
                ++arrivals.counts[static_cast<std::size_t>(at / Arrivals::kBin)];
            }
        }
        for (const Arrival& arrival : host) {
            arrivals.last[arrival.tensor] = std::max(arrivals.last[arrival.tensor], arrival.at);
        }
        std::stable_sort(host.begin(), host.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
    }
    return arrivals;
}

}  // namespace rueda::simulator
