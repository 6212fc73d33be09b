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

/// Alltoall: every rank has a part for every other rank, and both ranks know the size of the part. A rank copies the
/// part for itself. Parts for ranks of the same host go through the cells, parts for other hosts over the transport,
/// both at the same time. A batch has one segment.
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
    std::uint64_t own_copied_ = 0;  // bytes
    std::uint64_t work_ = 0;        // bytes, in this step
};

}  // namespace rueda::collectives
