// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/hierarchical_communicator.hpp"

#include "base/assert.hpp"
#include "collectives/hierarchical/alltoall_task.hpp"
#include "collectives/hierarchical/hierarchical_adasum_task.hpp"
#include "collectives/hierarchical/hierarchical_allreduce_task.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/splits_task.hpp"
#include "collectives/hierarchical/stream_task.hpp"

namespace rueda::collectives {

class HierarchicalCommunicator::Impl {
public:
    Impl(std::shared_ptr<Arena> arena, const LocalGroup& group, Transport& transport,
         const HierarchicalOptions& options)
        : set(std::move(arena), group, transport, options),
          allreduce(set),
          adasum(set),
          streams(set),
          alltoall(set),
          splits(set) {}

    HierarchicalSet set;
    HierarchicalAllreduceTask allreduce;
    HierarchicalAdasumTask adasum;
    StreamTask streams;
    AlltoallTask alltoall;
    SplitsTask splits;
};

HierarchicalCommunicator::HierarchicalCommunicator(std::shared_ptr<Arena> arena, const LocalGroup& group,
                                                   Transport& transport, const HierarchicalOptions& options)
    : impl_(std::make_unique<Impl>(std::move(arena), group, transport, options)) {}

HierarchicalCommunicator::~HierarchicalCommunicator() = default;

Task& HierarchicalCommunicator::start(const Batch& batch) {
    switch (batch.operation) {
        case Operation::allreduce:
        case Operation::reducescatter:
        case Operation::reduce:
            if (batch.segments.front().reduce_op == ReduceOp::adasum) {
                impl_->adasum.begin(batch);
                return impl_->adasum;
            }
            impl_->allreduce.begin(batch);
            return impl_->allreduce;
        case Operation::alltoall:
        case Operation::gather:
        case Operation::scatter:
            impl_->alltoall.begin(batch);
            return impl_->alltoall;
        case Operation::broadcast:
        case Operation::allgather:
        case Operation::barrier:
        case Operation::join:
        case Operation::group:
            break;
    }
    RUEDA_ASSERT(batch.operation == Operation::broadcast || batch.operation == Operation::allgather);
    impl_->streams.begin(batch);
    return impl_->streams;
}

Task& HierarchicalCommunicator::start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) {
    impl_->splits.begin(to, from);
    return impl_->splits;
}

const Status& HierarchicalCommunicator::failed() const { return impl_->set.messages.failure(); }

void HierarchicalCommunicator::abandon() { impl_->set.messages.abandon(); }

}  // namespace rueda::collectives
