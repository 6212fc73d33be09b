// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "collectives/hierarchical/network_allreduce.hpp"

namespace rueda::collectives {

/// Reduce-scatter + allgather, for large tensors. Every host combines one part of the data. In phase 0, each host
/// receives the other hosts' partial results of its part, and combines them in the order of the hosts. In phase 1, it
/// sends the combined part to all other hosts. For h hosts and S bytes, each host sends and receives 2(h−1)/h × S
/// bytes, in two steps.
///
/// The memory has three areas, one behind the other:
///     - this host's partial results, ordered by host
///     - the other hosts' partial results of this host's part, ordered by host
///     - the results, ordered by host
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
