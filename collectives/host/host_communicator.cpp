// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/host_communicator.hpp"

#include <utility>

#include "base/assert.hpp"
#include "collectives/host/tasks/inline_segments.hpp"

namespace rueda::collectives {
namespace {

/// AllreduceTask also handles adasum if the set has one member or all inputs travelled with the announcements.
bool needs_passes(const Batch& batch, std::size_t segment, std::uint32_t members) {
    return batch.segments[segment].reduce_op == ReduceOp::adasum && members > 1 &&
           !all_travelled(batch.locations_of(segment, members));
}

}  // namespace

HostCommunicator::HostCommunicator(std::shared_ptr<Arena> arena, const NumaNodes& nodes)
    : set_(std::move(arena), nodes),
      allreduce_(set_),
      numa_allreduce_(set_),
      adasum_(set_),
      mixed_allreduce_(
          set_.members, [this](const Batch& batch) -> Task& { return start_allreduce(batch); },
          [this](const Batch& batch) -> Task& {
              adasum_.begin(batch);
              return adasum_;
          }),
      exchange_(set_),
      scatter_(set_) {}

Task& HostCommunicator::start_allreduce(const Batch& batch) {
    if (numa_allreduce_.suits(batch)) {
        numa_allreduce_.begin(batch);
        return numa_allreduce_;
    }
    allreduce_.begin(batch);
    return allreduce_;
}

Task& HostCommunicator::start(const Batch& batch) {
    if (batch.operation == Operation::allreduce) {
        for (std::size_t i = 0; i < batch.segments.size(); ++i) {
            if (needs_passes(batch, i, set_.members)) [[unlikely]] {
                mixed_allreduce_.begin(batch,
                                       [&](std::size_t segment) { return needs_passes(batch, segment, set_.members); });
                return mixed_allreduce_;
            }
        }
        return start_allreduce(batch);
    }
    if (batch.operation != Operation::broadcast && batch.operation != Operation::allgather) {
        scatter_.begin(batch);
        return scatter_;
    }
    exchange_.begin(batch);
    return exchange_;
}

Task& HostCommunicator::start_splits(std::span<const std::int64_t> /*to*/, std::span<std::int64_t> /*from*/) {
    RUEDA_ASSERT(exchanges_splits());
    return exchange_;
}

}  // namespace rueda::collectives
