// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/launch_task.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "ops/neutral.hpp"

namespace rueda::collectives::cuda {

void LaunchTask::set_communicator(const NcclApi& nccl, NcclCommunicator communicator, Packing packing) {
    nccl_ = &nccl;
    communicator_ = communicator;
    packing_ = packing;
    registrations_.set_communicator(nccl, communicator);
}

void LaunchTask::begin(const DeviceBatch& batch) {
    batch_ = batch;
    end_.reset();
    planned_ = plan_calls(batch, where_.member, where_.members, packing_, plan_);
    if (failure_.is_ok()) {
        phase_ = Phase::waits_for_turn;
    }
}

StepResult LaunchTask::step() {
    last_work_ = StepWork::device_wait;
    if (phase_ == Phase::waits_for_turn) {
        const auto begun = begin_launch();
        if (!begun.is_ok()) {
            return fail(begun.status());
        }
        if (!begun.value()) {
            return StepResult::polling;
        }
        phase_ = Phase::is_in_progress;
    }
    if (phase_ == Phase::is_in_progress) {
        const auto launched = is_launched();
        if (!launched.is_ok()) {
            return fail(launched.status());
        }
        if (!launched.value()) {
            return StepResult::polling;
        }
        if (Status finished = finish(); !finished.is_ok()) {
            return fail(std::move(finished));
        }
        device_.end_turn(this);
        phase_ = Phase::done;
        last_work_ = StepWork::other;
    }
    return phase_ == Phase::done ? StepResult::done : StepResult::polling;
}

/// Begins to put the batch's work into the stream. Returns false if the batch must wait.
Result<bool> LaunchTask::begin_launch() {
    RUEDA_RETURN_IF_FAILED(planned_);
    auto prepared = registrations_.prepare(batch_.memory);
    if (!prepared.is_ok() || !prepared.value()) {
        return prepared;
    }
    if (!device_.take_turn(this)) {
        return false;
    }
    RUEDA_RETURN_IF_FAILED(launch());
    return true;
}

StepResult LaunchTask::fail(Status reason) {
    failure_ = std::move(reason);
    phase_ = Phase::has_failed;
    device_.end_turn(this);
    return StepResult::polling;
}

void LaunchTask::abandon() noexcept {
    phase_ = Phase::has_failed;
    device_.end_turn(this);
}

Status LaunchTask::nccl_error(const char* function, NcclResult result) const {
    return nccl_failure(*nccl_, function, result, communicator_, where_);
}

Status LaunchTask::launch() {
    auto stream = device_.stream();
    RUEDA_RETURN_IF_FAILED(stream.status());
    const RelaxedCapture relaxed(device_.api());
    const ContextScope scope(device_.api(), device_.context());
    if (scope.error() != kCudaSuccess) {
        return device_.failure_of("cuCtxPushCurrent", scope.error());
    }
    RUEDA_RETURN_IF_FAILED(wait_for_tensors(stream.value()));
    begun_ = measures_ ? device_.begin_timed(stream.value()) : TimedBegin();
    RUEDA_RETURN_IF_FAILED(prepare_memory(stream.value()));
    RUEDA_RETURN_IF_FAILED(copy_packed(Direction::pack, stream.value()));
    if (plan_.calls.empty()) {
        return {};
    }
    RUEDA_RETURN_IF_FAILED(create_reductions());
    return call_nccl(stream.value());
}

Status LaunchTask::wait_for_tensors(CudaStream stream) {
    const DeviceEvent* last = nullptr;
    for (const DeviceEventPtr& event : batch_.ready) {
        if (event != nullptr && event.get() != last) {
            RUEDA_RETURN_IF_FAILED(event->make_wait({device_.ordinal(), stream}));
            last = event.get();  // tensors of a group come one after the other and have the same event, so one wait is
                                 // enough for them
        }
    }
    return {};
}

Status LaunchTask::prepare_memory(CudaStream stream) {
    if (plan_.scratch_bytes > 0) {
        auto scratch = device_.scratch(plan_.scratch_bytes);
        RUEDA_RETURN_IF_FAILED(scratch.status());
        scratch_ = scratch.value();
    }
    for (const NeutralFill& fill : plan_.fills) {
        if (packing_ == Packing::on) {  // the device has kernels
            RUEDA_RETURN_IF_FAILED(device_.kernels().launch(
                ops::cuda::neutral_launch({.dtype = fill.dtype, .op = fill.op}, at({nullptr, true, fill.offset}),
                                          fill.bytes / size_of(fill.dtype)),
                stream));
            continue;
        }
        const unsigned key = static_cast<unsigned>(fill.dtype) * 8 + static_cast<unsigned>(fill.op);
        const auto write = [&fill](std::byte* to) {
            ops::fill_neutral({.dtype = fill.dtype, .op = fill.op}, to, Device::kPatternBytes / size_of(fill.dtype));
        };
        RUEDA_RETURN_IF_FAILED(device_.fill(scratch_ + fill.offset, fill.bytes, key, write));
    }
    for (const OwnCopy& copy : plan_.copies) {
        const CudaResult result = device_.api().copy_async(
            std::bit_cast<std::uintptr_t>(copy.to), std::bit_cast<std::uintptr_t>(copy.from), copy.bytes, stream);
        if (result != kCudaSuccess) {
            return device_.failure_of("cuMemcpyAsync", result);
        }
    }
    return {};
}

/// Copies all packed tensors into scratch memory, or the results out of it. The kernel moves bytes and does not look at
/// types, so tensors of different types share a launch.
Status LaunchTask::copy_packed(Direction direction, CudaStream stream) {
    items_.clear();
    for (const PackedTensor& tensor : plan_.packed) {
        std::byte* const packed = at({nullptr, true, tensor.offset});
        if (direction == Direction::pack) {
            items_.push_back({tensor.input, packed, tensor.bytes});
        } else {
            items_.push_back({packed, tensor.output, tensor.bytes});
        }
    }
    constexpr ops::cuda::Conversion kBytes{.from = DType::uint8, .to = DType::uint8};
    for (std::span<const ops::cuda::BatchItem> left = items_; !left.empty();) {
        const auto part = left.first(std::min<std::size_t>(left.size(), ops::cuda::kMostItems));
        RUEDA_RETURN_IF_FAILED(device_.kernels().launch(ops::cuda::batch_launch(kBytes, part), stream));
        left = left.subspan(part.size());
    }
    return {};
}

Status LaunchTask::create_reductions() {
    reductions_.clear();
    for (NcclFactor& factor : plan_.factors) {
        NcclReduction reduction = kNcclSum;
        const NcclResult result = nccl_->create_premultiplied_sum(&reduction, &factor.bits, factor.type,
                                                                  kNcclScalarHostImmediate, communicator_);
        if (result != kNcclSuccess) {
            return nccl_error("ncclRedOpCreatePreMulSum", result);
        }
        reductions_.push_back(reduction);
    }
    return {};
}

/// Calls NCCL's functions in one group (ncclGroupStart, ncclGroupEnd). The group is ended also after an error.
/// Otherwise the thread's next group would be nested in this one and would never end.
Status LaunchTask::call_nccl(CudaStream stream) {
    if (const NcclResult result = nccl_->group_start(); result != kNcclSuccess) {
        return nccl_error("ncclGroupStart", result);
    }
    Status called;
    for (const NcclCall& one : plan_.calls) {
        const char* function = "";
        if (const NcclResult result = call(one, stream, function); !was_accepted(result)) {
            called = nccl_error(function, result);
            break;
        }
    }
    const NcclResult ended = nccl_->group_end();
    RUEDA_RETURN_IF_FAILED(called);
    return was_accepted(ended) ? Status() : nccl_error("ncclGroupEnd", ended);
}

std::byte* LaunchTask::at(const Place& place) const {
    return place.is_scratch ? std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(scratch_ + place.offset))
                            : place.address;
}

NcclResult LaunchTask::call(const NcclCall& one, CudaStream stream, const char*& function) {
    const NcclReduction reduction = one.factor < 0 ? one.reduction : reductions_[static_cast<std::size_t>(one.factor)];
    std::byte* const input = at(one.input);
    std::byte* const output = at(one.output);
    switch (one.kind) {
        case NcclCall::Kind::all_reduce:
            function = "ncclAllReduce";
            return nccl_->all_reduce(input, output, one.count, one.type, reduction, communicator_, stream);
        case NcclCall::Kind::broadcast:
            function = "ncclBroadcast";
            return nccl_->broadcast(input, output, one.count, one.type, one.peer, communicator_, stream);
        case NcclCall::Kind::reduce:
            function = "ncclReduce";
            return nccl_->reduce(input, output, one.count, one.type, reduction, one.peer, communicator_, stream);
        case NcclCall::Kind::all_gather:
            function = "ncclAllGather";
            return nccl_->all_gather(input, output, one.count, one.type, communicator_, stream);
        case NcclCall::Kind::reduce_scatter:
            function = "ncclReduceScatter";
            return nccl_->reduce_scatter(input, output, one.count, one.type, reduction, communicator_, stream);
        case NcclCall::Kind::send:
            function = "ncclSend";
            return nccl_->send(input, one.count, one.type, one.peer, communicator_, stream);
        case NcclCall::Kind::receive:
            function = "ncclRecv";
            return nccl_->receive(output, one.count, one.type, one.peer, communicator_, stream);
    }
    return kNcclInternalError;
}

DeviceCall LaunchTask::last_call() const {
    if (plan_.calls.empty()) {
        return DeviceCall::unknown;
    }
    switch (plan_.calls.front().kind) {
        case NcclCall::Kind::all_reduce:
            return plan_.packed.empty() ? DeviceCall::nccl_all_reduce : DeviceCall::packed_nccl_all_reduce;
        case NcclCall::Kind::broadcast:
            return DeviceCall::nccl_broadcast;
        case NcclCall::Kind::reduce:
            return DeviceCall::nccl_reduce;
        case NcclCall::Kind::all_gather:
            return DeviceCall::nccl_all_gather;
        case NcclCall::Kind::reduce_scatter:
            return DeviceCall::nccl_reduce_scatter;
        case NcclCall::Kind::send:
        case NcclCall::Kind::receive:
            return DeviceCall::nccl_messages;
    }
    return DeviceCall::unknown;
}

Result<bool> LaunchTask::is_launched() {
    if (plan_.calls.empty()) {
        return true;
    }
    const auto busy = is_in_progress(*nccl_, communicator_, "a group of NCCL calls", where_);
    RUEDA_RETURN_IF_FAILED(busy.status());
    return !busy.value();
}

Status LaunchTask::finish() {
    auto stream = device_.stream();
    RUEDA_RETURN_IF_FAILED(stream.status());
    for (const NcclReduction reduction : reductions_) {
        if (const NcclResult result = nccl_->destroy_reduction(reduction, communicator_); result != kNcclSuccess) {
            return nccl_error("ncclRedOpDestroy", result);
        }
    }
    reductions_.clear();
    RUEDA_RETURN_IF_FAILED(copy_packed(Direction::unpack, stream.value()));
    auto end = begun_.event != nullptr ? device_.end_timed(std::exchange(begun_, {}), stream.value())
                                       : device_.record(stream.value());
    RUEDA_RETURN_IF_FAILED(end.status());
    end_ = std::move(end).value();
    registrations_.launched(end_);
    return {};
}

}  // namespace rueda::collectives::cuda
