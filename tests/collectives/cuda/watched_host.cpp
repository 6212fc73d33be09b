// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/cuda/watched_host.hpp"

#include <cstring>

#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/rows.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {

using collectives::Batch;
using collectives::Operation;
using collectives::Segment;
using collectives::StepResult;

collectives::Task& WatchedHost::start(const Batch& batch) {
    memory_.clear();
    first_ = batch.segments.empty() ? Segment() : batch.segments.front();
    exchanges_number_ = batch.segments.size() == 1 && first_.dtype == DType::uint64 &&
                        first_.reduce_op == ReduceOp::max && first_.count == 1;
    const bool exchanges_offers = batch.operation == Operation::allgather && first_.dtype == DType::uint8 &&
                                  first_.count == collectives::DeviceCommunicator::kOfferBytes;
    for (std::size_t segment = 0; segment < batch.segments.size() && !exchanges_number_ && !exchanges_offers;
         ++segment) {
        note(batch, segment);
    }
    access();
    inner_ = &host_.start(batch);
    return task_;
}

/// The stand-in must learn of accesses during the whole task, so the memory is reported at the start of the task and
/// again at its end.
StepResult WatchedHost::WatchedTask::step() {
    const StepResult result = owner_.inner_->step();
    last_work_ = owner_.inner_->last_work();
    if (result == StepResult::done) {
        owner_.access();
        owner_.plant();
    }
    return result;
}

void WatchedHost::note(const Batch& batch, std::size_t index) {
    const Segment& segment = batch.segments[index];
    const auto locations = batch.locations_of(index, members_);
    std::int64_t in = 1;
    std::int64_t out = 1;
    switch (batch.operation) {
        case Operation::allgather:
            if (!gpu::is_known(segment.input)) {
                return;  // the members exchange the positions of shared areas; the input is not a tensor
            }
            in = locations[member_].first_dimension;
            out = 0;
            for (const auto& location : locations) {
                out += location.first_dimension;
            }
            break;
        case Operation::reducescatter:
            in = locations[member_].first_dimension;
            out = collectives::rows_of_member(in, member_, members_).count;
            break;
        case Operation::alltoall:
        case Operation::gather:
        case Operation::scatter:
            in = out = 0;
            for (std::size_t other = 0; other < members_; ++other) {
                in += batch.splits[member_ * members_ + other];
                out += batch.splits[other * members_ + member_];
            }
            break;
        default:
            break;
    }
    if (segment.input != nullptr) {
        memory_.push_back({segment.input, static_cast<std::size_t>(in) * segment.bytes(), false});
    }
    if (segment.output != nullptr) {
        memory_.push_back({segment.output, static_cast<std::size_t>(out) * segment.bytes(), true});
    }
}

void WatchedHost::plant() const {
    if (keeps_own_proposals_ && exchanges_number_) {
        std::memcpy(first_.output, first_.input, sizeof(std::uint64_t));
    }
}

void WatchedHost::access() const {
    for (const Memory& one : memory_) {
        if (one.bytes > 0) {
            gpu::host_access(one.address, one.bytes, one.is_output);
        }
    }
}

}  // namespace rueda::tests
