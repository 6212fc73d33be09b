// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/order/order_task.hpp"

#include <span>

namespace rueda::collectives::cuda {

void OrderTask::begin(std::size_t local_members, First first) {
    locations_.assign(local_members, {});
    switch (first) {
        case First::ask:
            phase_ = Phase::asking;
            exchange(sets_->is_asked(use_) ? 1 : 0);
            break;
        case First::meet:
            phase_ = Phase::barrier;
            exchange(0);
            break;
        case First::propose:
            propose();
            break;
    }
}

/// Begins the exchange: an allreduce that computes the highest proposal. An allgather of the proposals would give the
/// same result, but would cost more between many hosts.
void OrderTask::exchange(std::uint64_t own) {
    own_ = own;
    segment_ = {.dtype = DType::uint64,
                .reduce_op = ReduceOp::max,
                .count = 1,
                .input = std::as_bytes(std::span(&own_, 1)).data(),
                .output = std::as_writable_bytes(std::span(&highest_, 1)).data()};
    inner_ = &host_.start(
        {.operation = Operation::allreduce, .segments = {&segment_, 1}, .locations = locations_, .splits = {}});
}

void OrderTask::propose() {
    phase_ = Phase::proposing;
    exchange(order_->enter(this, device_, set_));
}

StepResult OrderTask::step() {
    switch (phase_) {
        case Phase::asking:
        case Phase::barrier:
        case Phase::proposing:
            return step_exchange();
        case Phase::waiting:
            return look();
        case Phase::entered:
        case Phase::idle:
            break;
    }
    last_work_ = StepWork::none;
    return StepResult::done;
}

StepResult OrderTask::step_exchange() {
    const StepResult result = inner_->step();
    last_work_ = inner_->last_work();
    if (result != StepResult::done) {
        return result;
    }
    inner_ = nullptr;
    switch (phase_) {
        case Phase::asking:
            if (highest_ == 0) {
                phase_ = Phase::idle;
                return StepResult::done;
            }
            // From this batch on, the set has an order. The set's earlier batches had none, but all members have
            // launched them: otherwise they would not have come to this batch.
            has_order_ = true;
            sets_->decide(use_, true);
            propose();
            return StepResult::advanced;
        case Phase::barrier:
            propose();
            return StepResult::advanced;
        default:
            order_->agree(this, highest_);
            phase_ = Phase::waiting;
            return look();
    }
}

/// Checks whether the batch may be launched now. The same thread also steps the batches that go first, so nothing has
/// to wake it when they are launched.
StepResult OrderTask::look() {
    last_work_ = StepWork::device_wait;
    const auto awaited = order_->awaited(this);
    if (awaited) {
        awaited_set_ = *awaited;
        return StepResult::polling;
    }
    phase_ = Phase::entered;
    last_work_ = StepWork::other;
    return StepResult::done;
}

void OrderTask::leave() noexcept {
    order_->leave(this);
    phase_ = Phase::idle;
    inner_ = nullptr;
}

}  // namespace rueda::collectives::cuda
