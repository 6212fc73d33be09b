// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/staged/staged_task.hpp"

#include <array>
#include <bit>
#include <map>
#include <span>
#include <thread>
#include <utility>

namespace rueda::collectives::cuda {
namespace {

/// How long the destructor of a task sleeps before it asks the driver again whether the copies are done.
constexpr std::chrono::microseconds kCopyPause{50};

DeviceAddress device_address(const std::byte* memory) { return std::bit_cast<std::uintptr_t>(memory); }

}  // namespace

StagedTask::StagedTask(std::shared_ptr<StagingDevice> device, Communicator& host, std::uint32_t member,
                       std::uint32_t members, std::size_t piece_bytes, std::shared_ptr<SharedMemory> shared)
    : device_(std::move(device)), host_(host), member_(member), members_(members), piece_bytes_(piece_bytes) {
    if (shared != nullptr && members > 1) {
        area_ =
            std::make_unique<SharedArea>(device_, std::move(shared), member, members, piece_bytes + kGapBytes, kBlocks);
    }
}

void StagedTask::begin(const DeviceBatch& batch) {
    batch_ = batch;
    end_.reset();
    ready_.begin(batch.ready);
    copied_in_ = on_cpu_ = 0;
    is_done_ = false;
    if (Status planned = plan_staging(batch, member_, members_, piece_bytes_, plan_); !planned.is_ok()) {
        failure_ = std::move(planned);
    }
}

StepResult StagedTask::step() {
    last_work_ = StepWork::none;
    if (!failure_.is_ok()) {
        return StepResult::polling;
    }
    if (is_done_) {
        return StepResult::done;
    }
    auto result = advance();
    if (!result.is_ok()) {
        failure_ = result.status();
        return StepResult::polling;
    }
    return result.value();
}

LaunchPhase StagedTask::phase() const {
    // In the first batch, the members first tell each other where their areas are (`inner_` is then not null). The task
    // checks its inputs only after this exchange.
    if (inner_ == nullptr && !ready_.were_done()) {
        return LaunchPhase::waits_for_inputs;
    }
    return inner_ == nullptr && !waits_for_members_ ? LaunchPhase::copies : LaunchPhase::on_cpu;
}

Result<StepResult> StagedTask::advance() {
    if (area_ != nullptr && !area_->is_connected()) {
        return connect_area();
    }
    const auto ready = ready_.all_done();
    RUEDA_RETURN_IF_FAILED(ready.status());
    if (!ready.value()) {
        last_work_ = StepWork::device_wait;
        return StepResult::polling;
    }
    if (copied_in_ < plan_.pieces.size()) {
        RUEDA_RETURN_IF_FAILED(return_blocks());
        if (may_take_block()) {
            RUEDA_RETURN_IF_FAILED(copy_in());
            return StepResult::advanced;
        }
    }
    if (on_cpu_ < plan_.pieces.size()) {
        return work_on_cpu();
    }
    RUEDA_RETURN_IF_FAILED(finish());
    is_done_ = true;
    return StepResult::done;
}

StepResult StagedTask::step_inner() {
    const StepResult result = inner_->step();
    last_work_ = inner_->last_work();
    return result;
}

/// Lets the members tell each other where their areas are. This is the first part of the first batch. Every member has
/// this batch, so every member takes part in the exchange.
Result<StepResult> StagedTask::connect_area() {
    if (inner_ == nullptr) {
        area_->allocate();
        own_place_ = area_->own_place();
        places_.assign(members_, 0);
        ones_.assign(members_, 1);
        segments_.assign(1, {.dtype = DType::uint8,
                             .count = sizeof(own_place_),
                             .input = reinterpret_cast<const std::byte*>(&own_place_),
                             .output = reinterpret_cast<std::byte*>(places_.data())});
        locations_.assign(members_, {.first_dimension = 1});
        inner_ = &host_.start({.operation = Operation::allgather,
                               .segments = segments_,
                               .locations = locations_,
                               .splits = {},
                               .rows = ones_});
    }
    const StepResult result = step_inner();
    if (result != StepResult::done) {
        return result;
    }
    inner_ = nullptr;
    area_->connect(places_);
    return StepResult::advanced;
}

/// Whether the CPU reduces the piece in place, in the memory that the members share. The answer is the same on all
/// members, because it depends only on facts that are the same on all members.
bool StagedTask::uses_area(const StagedPiece& piece) const {
    return area_ != nullptr && area_->is_usable() && piece.bytes <= area_->block_bytes() &&
           batch_.operation == Operation::allreduce && parts_of(piece).front().segment.reduce_op != ReduceOp::adasum;
}

Status StagedTask::return_blocks() {
    while (!leaving_.empty()) {
        const auto done = leaving_.front().copied_out->is_done();
        RUEDA_RETURN_IF_FAILED(done.status());
        if (!done.value()) {
            break;
        }
        return_block(leaving_.front().block, leaving_.front().number);
        leaving_.pop_front();
    }
    return {};
}

/// Gives the block of a piece back, so that another piece can use it. `number` is not 0 if the block is in the shared
/// area. There is nothing to do for such a block: its place follows from the piece's number, and at most kBlocks pieces
/// are in progress, so two pieces never use the same block.
void StagedTask::return_block(const PinnedBlock& block, std::uint64_t number) {
    if (number != 0) {
        return;
    }
    if (is_reserved_) {
        reserved_.push_back(block);
    } else {
        device_->give_back(block);
    }
}

/// Whether the next piece may take a block. A piece that is larger than the limit waits until no other piece is in
/// progress. So an operation that cannot be divided needs the memory of only one block.
bool StagedTask::may_take_block() const {
    const std::size_t used = stages_.size() + leaving_.size();
    return plan_.pieces[copied_in_].bytes > piece_bytes_ ? used == 0 : used < kBlocks;
}

void StagedTask::reserve() {
    if (failure_.is_ok()) {
        is_reserved_ = true;
        if (area_ != nullptr) {
            area_->allocate();
        }
        failure_ = take_all_blocks();
    }
}

/// For each size of pieces, takes as many blocks as pieces of this size can be in progress at the same time.
Status StagedTask::take_all_blocks() {
    std::map<std::size_t, std::size_t> taken;  // the number of blocks by size
    for (const StagedPiece& piece : plan_.pieces) {
        if (uses_area(piece)) {
            continue;
        }
        std::size_t& blocks = taken[StagingDevice::size_of_block(piece.bytes)];
        if (blocks < (piece.bytes > piece_bytes_ ? 1 : kBlocks)) {
            auto block = device_->take(piece.bytes);
            RUEDA_RETURN_IF_FAILED(block.status());
            reserved_.push_back(block.value());
            ++blocks;
        }
    }
    return {};
}

/// Takes the smallest reserved block that is large enough. Without one, takes a block from the pool.
Result<PinnedBlock> StagedTask::take_block(std::size_t bytes) {
    auto best = reserved_.end();
    for (auto block = reserved_.begin(); block != reserved_.end(); ++block) {
        if (block->bytes >= bytes && (best == reserved_.end() || block->bytes < best->bytes)) {
            best = block;
        }
    }
    if (best == reserved_.end()) {
        return device_->take(bytes);
    }
    const PinnedBlock block = *best;
    reserved_.erase(best);
    return block;
}

void StagedTask::end_reservation() noexcept {
    for (const PinnedBlock& block : reserved_) {
        device_->give_back(block);
    }
    reserved_.clear();
    is_reserved_ = false;
}

std::span<const StagedPart> StagedTask::parts_of(const StagedPiece& piece) const {
    return std::span(plan_.parts).subspan(piece.first, piece.parts);
}

/// Puts the copies of a piece into the stream of their direction (to the host or to the device), and an event behind
/// them. If there are no copies, the event stays null.
Status StagedTask::copy(Direction direction, const StagedPiece& piece, const PinnedBlock& block,
                        DeviceEventPtr& event) {
    Device& device = device_->device();
    const RelaxedCapture relaxed(device.api());
    const ContextScope scope(device.api(), device.context());
    if (scope.error() != kCudaSuccess) {
        return device.failure_of("cuCtxPushCurrent", scope.error());
    }
    auto stream = device_->stream(direction);
    RUEDA_RETURN_IF_FAILED(stream.status());
    bool any = false;
    for (const StagedPart& part : parts_of(piece)) {
        const bool is_input = direction == Direction::to_host;
        const std::byte* const on_device = is_input ? part.device_input : part.device_output;
        if (on_device == nullptr) {
            continue;
        }
        const DeviceAddress there = device_address(on_device);
        const DeviceAddress here = device_address(block.memory + (is_input ? part.input_offset : part.output_offset));
        const CudaResult result =
            device.api().copy_async(is_input ? here : there, is_input ? there : here,
                                    is_input ? part.input_bytes : part.output_bytes, stream.value());
        if (result != kCudaSuccess) {
            return device.failure_of("cuMemcpyAsync", result);
        }
        any = true;
    }
    if (any) {
        auto recorded = device.record(stream.value());
        RUEDA_RETURN_IF_FAILED(recorded.status());
        event = std::move(recorded).value();
    }
    return {};
}

Status StagedTask::copy_in() {
    last_work_ = StepWork::copy_in;
    const StagedPiece& piece = plan_.pieces[copied_in_];
    Stage stage;
    if (uses_area(piece)) {
        stage.number = ++area_pieces_;
        stage.block = {area_->own_block(stage.number), area_->block_bytes()};
    } else {
        auto block = take_block(piece.bytes);
        RUEDA_RETURN_IF_FAILED(block.status());
        stage.block = block.value();
    }
    stages_.push_back(stage);
    RUEDA_RETURN_IF_FAILED(copy(Direction::to_host, piece, stage.block, stages_.back().copied_in));
    ++copied_in_;
    return {};
}

Result<StepResult> StagedTask::work_on_cpu() {
    if (inner_ == nullptr) {
        if (stages_.empty()) {
            last_work_ = StepWork::device_wait;
            return StepResult::polling;  // all blocks are copied out
        }
        if (const DeviceEventPtr& event = stages_.front().copied_in; event != nullptr) {
            const auto done = event->is_done();
            RUEDA_RETURN_IF_FAILED(done.status());
            if (!done.value()) {
                last_work_ = StepWork::device_wait;
                return StepResult::polling;
            }
        }
        if (!are_members_ready()) {
            last_work_ = StepWork::device_wait;  // waits until the other members' devices have copied the inputs
            return StepResult::polling;
        }
        start_on_cpu();
    }
    const StepResult result = step_inner();
    if (result != StepResult::done) {
        return result;
    }
    inner_ = nullptr;
    RUEDA_RETURN_IF_FAILED(copy_out());
    ++on_cpu_;
    return StepResult::advanced;
}

/// Whether the CPU may work on the first piece in `stages_`. If the CPU reduces this piece in place, all members must
/// first have copied their inputs to their blocks. Other pieces need not wait.
bool StagedTask::are_members_ready() {
    const std::uint64_t number = stages_.front().number;
    if (number == 0) {
        return true;
    }
    if (!waits_for_members_) {
        area_->publish(number);  // once for each piece, because the other members keep reading the counter
    }
    waits_for_members_ = !area_->is_ready(number);
    return !waits_for_members_;
}

/// Sets the addresses of a part in the blocks of all members. The part has the same offsets on all members, and its
/// output replaces its input.
void StagedTask::use_area_of_members(const StagedPart& part, std::uint64_t number,
                                     std::span<Location> locations) const {
    for (std::uint32_t member = 0; member < locations.size(); ++member) {
        if (!locations[member].absent) {
            locations[member].input = area_->block(member, number) + part.input_offset;
            locations[member].output = locations[member].input;
        }
    }
}

void StagedTask::start_on_cpu() {
    const Batch& host = batch_.host;
    const std::size_t local_members = host.local_members();
    segments_.clear();
    locations_.clear();
    std::byte* const memory = stages_.front().block.memory;
    for (const StagedPart& part : parts_of(plan_.pieces[on_cpu_])) {
        Segment& segment = segments_.emplace_back(part.segment);
        segment.input = part.has_input ? memory + part.input_offset : nullptr;
        segment.output = part.has_output ? memory + part.output_offset : nullptr;
        const auto locations = host.locations_of(part.tensor, local_members);
        locations_.insert(locations_.end(), locations.begin(), locations.end());
        if (const std::uint64_t number = stages_.front().number; number != 0) {
            use_area_of_members(part, number, std::span(locations_).last(local_members));
        }
    }
    inner_ = &host_.start({.operation = host.operation,
                           .segments = segments_,
                           .locations = locations_,
                           .splits = host.splits,
                           .rows = host.rows});
}

Status StagedTask::copy_out() {
    const Stage stage = stages_.front();
    DeviceEventPtr copied_out;
    RUEDA_RETURN_IF_FAILED(copy(Direction::to_device, plan_.pieces[on_cpu_], stage.block, copied_out));
    stages_.pop_front();
    if (copied_out == nullptr) {
        return_block(stage.block, stage.number);
    } else {
        leaving_.push_back({stage.block, std::move(copied_out), stage.number});
    }
    return {};
}

/// All copies of one direction are in one stream, so the event of the last copy comes after all of them.
Status StagedTask::finish() {
    end_reservation();
    if (!leaving_.empty()) {
        end_ = leaving_.back().copied_out;
        return {};
    }
    Device& device = device_->device();
    const ContextScope scope(device.api(), device.context());
    if (scope.error() != kCudaSuccess) {
        return device.failure_of("cuCtxPushCurrent", scope.error());
    }
    auto stream = device_->stream(Direction::to_device);
    RUEDA_RETURN_IF_FAILED(stream.status());
    auto end = device.record(stream.value());
    RUEDA_RETURN_IF_FAILED(end.status());
    end_ = std::move(end).value();
    return {};
}

/// Waits until the device has done all copies, at most for kEndLimit. Returns whether the device has done them. Nothing
/// wakes a thread when the copies are done, so the thread sleeps and asks again. An error of the device also ends the
/// wait, because the copies would never be done.
bool StagedTask::wait_for_copies() noexcept {
    const auto limit = std::chrono::steady_clock::now() + kEndLimit;
    const std::array<DeviceEventPtr, 2> last{stages_.empty() ? nullptr : stages_.back().copied_in,
                                             leaving_.empty() ? nullptr : leaving_.back().copied_out};
    for (const DeviceEventPtr& event : last) {
        while (event != nullptr) {
            const auto done = event->is_done();
            if (done.is_ok() && done.value()) {
                break;
            }
            if (!done.is_ok() || std::chrono::steady_clock::now() >= limit) {
                return false;
            }
            std::this_thread::sleep_for(kCopyPause);
        }
    }
    return true;
}

StagedTask::~StagedTask() {
    end_reservation();
    // While this member waits for the other members, one of them may already write to this member's block. In this
    // case, the memory is not reused.
    if (!wait_for_copies() || inner_ != nullptr || waits_for_members_ || !failure_.is_ok()) {
        if (area_ != nullptr) {
            area_->leave_to_process();
        }
        return;
    }
    is_reserved_ = false;
    for (const Stage& stage : stages_) {
        return_block(stage.block, stage.number);
    }
    for (const Leaving& leaving : leaving_) {
        return_block(leaving.block, leaving.number);
    }
}

}  // namespace rueda::collectives::cuda
