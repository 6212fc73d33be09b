// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/host_communicator.hpp"

#include <utility>

#include "collectives/host/tasks/inline_segments.hpp"

namespace rueda::collectives {
namespace {

/// AllreduceTask also handles adasum if the set has one member or all inputs travelled with the announcements.
bool needs_passes(const Batch& batch, std::size_t segment, std::uint32_t members) {
    return batch.segments[segment].reduce_op == ReduceOp::adasum && members > 1 &&
           !all_travelled(batch.locations_of(segment, members));
}

}  // namespace

HostCommunicator::HostCommunicator(std::shared_ptr<Arena> arena)
    : set_(std::move(arena)),
      allreduce_(set_),
      adasum_(set_),
      mixed_allreduce_(
          set_.members,
          [this](const Batch& batch) -> Task& {
              allreduce_.begin(batch);
              return allreduce_;
          },
          [this](const Batch& batch) -> Task& {
              adasum_.begin(batch);
              return adasum_;
          }),
      exchange_(set_),
      scatter_(set_) {}

Task& HostCommunicator::start(const Batch& batch) {
    if (batch.operation == Operation::allreduce) {
        for (std::size_t i = 0; i < batch.segments.size(); ++i) {
            if (needs_passes(batch, i, set_.members)) [[unlikely]] {
                mixed_allreduce_.begin(batch,
                                       [&](std::size_t segment) { return needs_passes(batch, segment, set_.members); });
                return mixed_allreduce_;
            }
        }
        allreduce_.begin(batch);
        return allreduce_;
    }
    if (batch.operation != Operation::broadcast && batch.operation != Operation::allgather) {
        scatter_.begin(batch);
        return scatter_;
    }
    exchange_.begin(batch);
    return exchange_;
}

}  // namespace rueda::collectives
