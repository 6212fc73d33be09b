// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "collectives/hierarchical/network_allreduce.hpp"

namespace rueda::collectives {

/// Reduce-scatter + allgather, for large tensors. Every host is responsible for a part, which all other hosts send to
/// it (phase 0). It combines the part in the order of the hosts and sends the result to all hosts (phase 1). For h
/// hosts and S bytes, each host sends and receives 2(h−1)/h × S bytes, in two steps.
///
///     memory: | partials, by host | the other hosts' partials of this host's part, by host | results, by host |
class ReduceScatterExchange final : public NetworkAllreduce {
public:
    using NetworkAllreduce::NetworkAllreduce;

    [[nodiscard]] std::uint32_t phases() const override { return 2; }
    void start_receives(std::uint32_t phase) override;
    void start_sends(std::uint32_t phase) override;
    void finish() override {}
    [[nodiscard]] const std::byte* results() const override { return results_; }

private:
    void prepare() override;
    [[nodiscard]] Range part(std::uint32_t host) const { return SegmentMap::share(share(), host, hosts()); }
    [[nodiscard]] std::uint64_t offset(Range part) const { return part.begin - share().begin; }
    [[nodiscard]] std::byte* room(std::uint32_t other) const;
    void combine_part();

    std::byte* results_ = nullptr;
    std::vector<const std::byte*> parts_;
};

}  // namespace rueda::collectives
