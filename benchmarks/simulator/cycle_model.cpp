// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <bit>

#include "benchmarks/simulator/model.hpp"

namespace rueda::simulator {
namespace {

/// The number of bytes that describe a tensor in a rank's request or in rank 0's response: a name of about 40 bytes, a
/// shape, and fixed fields.
constexpr std::size_t kRequestBytes = 80;

std::uint32_t doublings(std::uint32_t count) { return static_cast<std::uint32_t>(std::bit_width(count - 1)); }

class Cycles {
public:
    Cycles(const Job& job, const Costs& costs)
        : job_(job), costs_(costs), local_steps_(doublings(job.ranks_per_host)), remote_steps_(doublings(job.hosts)) {}

    StepResult step(const Arrivals& arrivals, bool cached) {
        StepResult result;
        std::vector<Nanoseconds> last = arrivals.last;
        std::sort(last.begin(), last.end());
        std::size_t decided = 0;
        std::size_t bin = 0;
        Nanoseconds everybody = 0;
        for (Nanoseconds start = 0; decided < last.size(); ++result.rounds) {
            Nanoseconds duration = vote(cached, result);
            everybody += vote_work();
            const std::uint64_t announced = announced_until(start, arrivals, bin);
            const auto ready = static_cast<std::size_t>(std::upper_bound(last.begin(), last.end(), start) -
                                                        last.begin() - static_cast<std::ptrdiff_t>(decided));
            if (!cached && announced + ready > 0) {
                duration += through_rank_0(announced, ready, result);
            }
            for (std::size_t i = 0; i < ready; ++i) {
                result.delays.push_back(start + duration - last[decided + i]);
            }
            decided += ready;
            start += std::max(duration, job_.cycle);
        }
        result.work += std::int64_t{job_.ranks()} * everybody;
        result.coordinator += everybody;
        result.busiest = result.coordinator;
        result.most_messages += result.rounds * 2 * (local_steps_ + remote_steps_);
        std::sort(result.delays.begin(), result.delays.end());
        return result;
    }

private:
    /// Returns the time of an allreduce of the bit vector by recursive doubling, in which every rank sends and receives
    /// in every step. Adds the messages of the allreduce to `result`.
    Nanoseconds vote(bool cached, StepResult& result) const {
        const std::size_t words = 1 + (cached ? (job_.tensors + 63) / 64 : 0);
        const std::size_t bytes = 8 * words;
        const std::uint64_t messages = std::uint64_t{job_.ranks()} * (local_steps_ + remote_steps_);
        result.messages += messages;
        result.bytes += messages * bytes;
        // The ranks of a host send at the same time, and share the host's outgoing link.
        const Nanoseconds out = costs_.transfer(bytes * job_.ranks_per_host);
        return local_steps_ * (costs_.send + costs_.receive + costs_.local_latency) +
               remote_steps_ * (costs_.send + costs_.receive + costs_.latency + out);
    }
    [[nodiscard]] Nanoseconds vote_work() const {
        return (local_steps_ + remote_steps_) * (costs_.send + costs_.receive);
    }

    /// Returns how many of the ranks' tensors became ready between the last call and `time`. The arrivals are counted
    /// in bins of time, so the result contains all arrivals of the bin in which `time` lies.
    static std::uint64_t announced_until(Nanoseconds time, const Arrivals& arrivals, std::size_t& bin) {
        std::uint64_t count = 0;
        for (; bin < arrivals.counts.size() && static_cast<Nanoseconds>(bin) * Arrivals::kBin <= time; ++bin) {
            count += arrivals.counts[bin];
        }
        return count;
    }

    /// Returns the time of a negotiation by lists, and adds its messages to `result`. Every rank sends its list to rank
    /// 0. A binomial tree takes the list of operations back to all ranks.
    Nanoseconds through_rank_0(std::uint64_t announced, std::size_t ready, StepResult& result) const {
        const std::uint64_t others = job_.ranks() - 1;
        const std::size_t lists = announced * kRequestBytes;
        const std::size_t answer = ready * kRequestBytes;
        const std::uint32_t steps = local_steps_ + remote_steps_;
        result.messages += 2 * others;
        result.bytes += lists + others * answer;
        const Nanoseconds gathering = static_cast<Nanoseconds>(others) * costs_.receive +
                                      static_cast<Nanoseconds>(announced + ready) * costs_.item;
        result.coordinator += gathering + steps * costs_.send;
        // Every rank except rank 0 writes and sends its list, and processes the answer.
        result.work += gathering + static_cast<Nanoseconds>(announced) * costs_.item +
                       static_cast<Nanoseconds>(others) *
                           (2 * costs_.send + costs_.receive + static_cast<Nanoseconds>(ready) * costs_.item);
        result.most_messages += others + steps;
        const Nanoseconds up = costs_.send + costs_.latency + std::max(gathering, costs_.transfer(lists));
        const Nanoseconds down =
            local_steps_ * (costs_.send + costs_.receive + costs_.local_latency) +
            remote_steps_ * (costs_.send + costs_.receive + costs_.latency + costs_.transfer(answer));
        return up + down + static_cast<Nanoseconds>(ready) * costs_.item;
    }

    const Job& job_;
    const Costs& costs_;
    std::uint32_t local_steps_;
    std::uint32_t remote_steps_;
};

}  // namespace

std::vector<StepResult> simulate_cycles(const Job& job, const Costs& costs, std::uint32_t steps) {
    Cycles cycles(job, costs);
    std::vector<StepResult> results;
    for (std::uint32_t step = 0; step < steps; ++step) {
        // The cache evicts the least recently used entry. If not all tensors fit, each tensor is evicted before its
        // next use.
        const bool cached = step > 0 && job.tensors <= job.cache_capacity;
        results.push_back(cycles.step(arrivals_of(job, step), cached));
    }
    return results;
}

std::uint32_t depth_of_cycles(const Job& job) { return doublings(job.ranks_per_host) + doublings(job.hosts); }

}  // namespace rueda::simulator
