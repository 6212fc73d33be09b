// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/local_exchange.hpp"
#include "collectives/hierarchical/pair_parts.hpp"
#include "collectives/hierarchical/remote_exchange.hpp"

namespace rueda::collectives {

/// Alltoall on several hosts: every rank has a part for every rank, and sender and receiver both know its size. A rank
/// copies its own part directly. Parts for ranks of the same host go through the host's shared memory, and parts for
/// other hosts go over the transport, both at the same time. A batch has one segment (tensor).
class AlltoallTask final : public Task {
public:
    explicit AlltoallTask(HierarchicalSet& set) : set_(set), local_(set), remote_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;

private:
    void lay_out(std::span<const std::int64_t> rows, std::uint64_t row_bytes, std::vector<Range>& parts);
    bool act();
    [[nodiscard]] bool end();
    [[nodiscard]] std::uint64_t own_left() const;
    bool copy_own();

    HierarchicalSet& set_;
    PairParts parts_;
    LocalExchange local_;
    RemoteExchange remote_;
    std::uint64_t own_copied_ = 0;  // how many bytes this rank has copied of the part that it sends to itself
    std::uint64_t work_ = 0;        // bytes moved in the current step
};

}  // namespace rueda::collectives
