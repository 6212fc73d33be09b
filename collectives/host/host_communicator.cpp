// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/host_communicator.hpp"

#include <utility>

#include "base/assert.hpp"

namespace rueda::collectives {
namespace {

/// Whether the batch needs AdasumTask. Either all tensors of a batch use Adasum, or none. AllreduceTask can handle
/// Adasum itself if the set has one member, or if the announcements contained all inputs.
bool needs_passes(const Batch& batch, std::uint32_t members) {
    if (members == 1 || batch.segments.front().reduce_op != ReduceOp::adasum) [[likely]] {
        return false;
    }
    for (std::size_t i = 0; i < batch.segments.size(); ++i) {
        if (!all_travelled(batch.locations_of(i, members))) {
            return true;
        }
    }
    return false;
}

}  // namespace

HostCommunicator::HostCommunicator(std::shared_ptr<Arena> arena)
    : set_(std::move(arena)), allreduce_(set_), adasum_(set_), exchange_(set_), scatter_(set_) {}

Task& HostCommunicator::start(const Batch& batch) {
    if (batch.operation == Operation::allreduce) {
        if (needs_passes(batch, set_.members)) [[unlikely]] {
            adasum_.begin(batch);
            return adasum_;
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

Task& HostCommunicator::start_splits(std::span<const std::int64_t> /*to*/, std::span<std::int64_t> /*from*/) {
    RUEDA_ASSERT(exchanges_splits());
    return exchange_;
}

}  // namespace rueda::collectives
