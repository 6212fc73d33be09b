// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/ipc/ipc_task.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "collectives/cuda/ipc/ipc_pieces.hpp"

namespace rueda::collectives::cuda {
namespace {

/// How long the destructor of a task sleeps before it asks the driver again whether the kernels are done.
constexpr std::chrono::microseconds kKernelPause{50};

using PieceNumber = std::array<std::byte, sizeof(std::uint64_t)>;

}  // namespace

IpcTask::IpcTask(std::shared_ptr<IpcDevice> device, Communicator& host, std::uint32_t member, std::uint32_t members,
                 IpcSizes sizes)
    : device_(std::move(device)),
      member_(member),
      members_(members),
      sizes_(sizes),
      exchange_(host, members),
      connection_(device_, exchange_, member, members, sizes.slot) {}

IpcTask::~IpcTask() {
    if (!wait_for_kernels()) {
        connection_.keep_for_ever();
    }
}

bool IpcTask::takes(const DeviceBatch& batch) const {
    if (connection_.state() == IpcConnection::State::refused ||
        batch.host.locations.size() != batch.segments.size() * members_) {
        return false;
    }
    const bool can_all = std::all_of(batch.segments.begin(), batch.segments.end(), [](const Segment& segment) {
        return segment.absent == 0 && segment.uncounted == 0 && segment.reduce_op != ReduceOp::adasum;
    });
    const std::uint64_t bytes = can_all ? bytes_of(batch) : 0;
    return bytes > 0 && bytes >= sizes_.least_batch;
}

/// Returns the size of the batch, which decides whether this task takes the batch. It is the number of bytes of a
/// member's tensors. For an operation that moves rows, it is the number of bytes that all members together move. All
/// members get the same number. Returns 0 if this task does not support the operation.
std::uint64_t IpcTask::bytes_of(const DeviceBatch& batch) const {
    if (moves_rows(batch.operation)) {
        IpcRows rows;
        return batch.segments.size() == 1 && plan_ipc_rows(batch, member_, members_, rows).is_ok() ? rows.moved : 0;
    }
    const bool is_divisible = batch.operation == Operation::allreduce || batch.operation == Operation::broadcast ||
                              batch.operation == Operation::reduce;
    std::uint64_t bytes = 0;
    for (const Segment& segment : batch.segments) {
        bytes += segment.bytes();
    }
    return is_divisible ? bytes : 0;
}

Status IpcTask::plan() {
    if (moves_rows(batch_.operation)) {
        RUEDA_RETURN_IF_FAILED(plan_ipc_rows(batch_, member_, members_, rows_));
        pieces_ = pieces_of(rows_, sizes_.slot);
        return {};
    }
    RUEDA_RETURN_IF_FAILED(plan_staging(batch_, member_, members_, sizes_.slot, plan_));
    pieces_ = plan_.pieces.size();
    return {};
}

void IpcTask::begin(const DeviceBatch& batch) {
    batch_ = batch;
    ready_.begin(batch.ready);
    next_ = 0;
    state_ = State::waits_for_inputs;
    if (Status planned = plan(); !planned.is_ok()) {
        failure_ = std::move(planned);
    }
}

StepResult IpcTask::step() {
    last_work_ = StepWork::none;
    if (!failure_.is_ok()) {
        return StepResult::polling;
    }
    auto result = advance();
    if (!result.is_ok()) {
        failure_ = result.status();
        return StepResult::polling;
    }
    return result.value();
}

LaunchPhase IpcTask::phase() const {
    switch (state_) {
        case State::waits_for_inputs:
            return LaunchPhase::waits_for_inputs;
        case State::connecting:
        case State::barrier:
            return LaunchPhase::meets_peers;
        case State::submitting:
        case State::on_device:
        case State::done:
            break;
    }
    return LaunchPhase::in_peer_memory;
}

Result<StepResult> IpcTask::advance() {
    switch (state_) {
        case State::waits_for_inputs: {
            const auto ready = ready_.all_done();
            RUEDA_RETURN_IF_FAILED(ready.status());
            if (!ready.value()) {
                last_work_ = StepWork::device_wait;
                return StepResult::polling;
            }
            state_ = State::connecting;
            return StepResult::advanced;
        }
        case State::connecting:
            return connect();
        case State::submitting:
            RUEDA_RETURN_IF_FAILED(submit_round());
            return state_ == State::done ? StepResult::done : StepResult::advanced;
        case State::on_device:
            return wait_for_device();
        case State::barrier:
            return meet();
        case State::done:
            break;
    }
    return StepResult::done;
}

Result<StepResult> IpcTask::connect() {
    auto result = connection_.step(last_work_);
    RUEDA_RETURN_IF_FAILED(result.status());
    if (result.value() != StepResult::done) {
        return result;
    }
    const bool is_connected = connection_.state() == IpcConnection::State::connected;
    state_ = is_connected ? State::submitting : State::done;
    return is_connected ? StepResult::advanced : StepResult::done;
}

std::span<const StagedPart> IpcTask::parts_of(std::size_t piece) const {
    return std::span(plan_.parts).subspan(plan_.pieces[piece].first, plan_.pieces[piece].parts);
}

/// Puts the work of a round into the stream: combine the previous piece, and fill the next one. The last round only
/// combines, because there is no further piece to fill. After the last round, the batch is done.
Status IpcTask::submit_round() {
    auto stream = device_->stream();
    RUEDA_RETURN_IF_FAILED(stream.status());
    if (next_ > 0) {
        RUEDA_RETURN_IF_FAILED(combine(next_ - 1, stream.value()));
    } else if (measures_) {
        begin_measuring(stream.value());
    }
    const bool is_last = next_ == pieces_;
    if (!is_last) {
        RUEDA_RETURN_IF_FAILED(fill(next_, stream.value()));
    }
    auto event = record_round(is_last, stream.value());
    RUEDA_RETURN_IF_FAILED(event.status());
    event_ = std::move(event).value();
    if (is_last) {
        end_ = event_;
        before_ += pieces_;
    }
    state_ = is_last ? State::done : State::on_device;
    return {};
}

/// Records where the batch's work begins. Only the owner of the turn (Device::take_turn()) may do this. If another
/// communicator of the device has the turn, the batch is not measured, because the batch must not wait for the other
/// communicator.
void IpcTask::begin_measuring(CudaStream stream) {
    Device& device = device_->device();
    if (!device.take_turn(this)) {
        return;
    }
    const auto end_turn = [this](Device* of) { of->end_turn(this); };
    const std::unique_ptr<Device, decltype(end_turn)> turn(&device, end_turn);  // gives the turn back, even if
                                                                                // begin_timed() throws because memory
                                                                                // ran out
    begun_ = device.begin_timed(stream);
}

Result<DeviceEventPtr> IpcTask::record_round(bool is_last, CudaStream stream) {
    Device& device = device_->device();
    return is_last && begun_.event != nullptr ? device.end_timed(std::exchange(begun_, {}), stream)
                                              : device.record(stream);
}

Status IpcTask::combine(std::size_t piece, CudaStream stream) {
    last_work_ = StepWork::reduce;
    Kernels& kernels = device_->device().kernels();
    const IpcMemory memory{.slots = connection_.slots((before_ + piece) % IpcConnection::kSlots),
                           .scratch = connection_.scratch()};
    return moves_rows(batch_.operation) ? launch_rows_out(kernels, stream, rows_, piece, sizes_.slot, memory.slots)
                                        : launch_outputs(kernels, stream, batch_.operation, parts_of(piece), memory);
}

Status IpcTask::fill(std::size_t piece, CudaStream stream) {
    last_work_ = last_work_ == StepWork::none ? StepWork::copy_in : last_work_;
    std::byte* const slot = connection_.slots((before_ + piece) % IpcConnection::kSlots)[member_];
    Kernels& kernels = device_->device().kernels();
    return moves_rows(batch_.operation) ? launch_rows_in(kernels, stream, rows_, piece, sizes_.slot, slot)
                                        : launch_inputs(kernels, stream, parts_of(piece), slot);
}

/// Waits, on the host, until the device has done the work of the round. Then the members meet, that is, wait for each
/// other.
Result<StepResult> IpcTask::wait_for_device() {
    const auto done = event_->is_done();
    RUEDA_RETURN_IF_FAILED(done.status());
    if (!done.value()) {
        last_work_ = StepWork::device_wait;
        return StepResult::polling;
    }
    const std::uint64_t number = before_ + next_;
    PieceNumber bytes;
    std::memcpy(bytes.data(), &number, bytes.size());
    exchange_.begin(bytes);
    state_ = State::barrier;
    return StepResult::advanced;
}

Result<StepResult> IpcTask::meet() {
    const StepResult result = exchange_.step(last_work_);
    if (result != StepResult::done) {
        return result;
    }
    const std::uint64_t number = before_ + next_;
    for (std::uint32_t member = 0; member < members_; ++member) {
        std::uint64_t others = 0;
        std::memcpy(&others, exchange_.of(member).data(), sizeof(others));
        if (others != number) {
            return failure(ErrorCode::internal,
                           "member {} has filled piece {} of its CUDA IPC memory, expected piece {}", member, others,
                           number);
        }
    }
    ++next_;
    state_ = State::submitting;
    return StepResult::advanced;
}

/// Waits until the device has done all kernels, at most for kEndLimit. Returns whether the device has done them. The
/// kernels wait for nothing but earlier kernels of this process. Nothing wakes a thread when they are done, so the
/// thread sleeps and asks again. An error of the device also ends the wait, because the kernels would never be done.
bool IpcTask::wait_for_kernels() noexcept {
    const auto limit = std::chrono::steady_clock::now() + kEndLimit;
    while (event_ != nullptr) {
        const auto done = event_->is_done();
        if (done.is_ok() && done.value()) {
            break;
        }
        if (!done.is_ok() || std::chrono::steady_clock::now() >= limit) {
            return false;
        }
        std::this_thread::sleep_for(kKernelPause);
    }
    return failure_.is_ok();  // After a failure, kernels of the failed round may be in the stream behind the last
                              // event. The function then returns false.
}

}  // namespace rueda::collectives::cuda
