// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/plugin/set_communicator.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "ops/cuda/kernel_arguments.hpp"

namespace rueda::collectives::cuda {
namespace {

static_assert(kMostIpcMembers <= ops::cuda::kMostSources, "one kernel reads the memory of all members");

/// The end of work in two streams. The times are those of `measured`, which may be null.
class BothEvents final : public DeviceEvent {
public:
    BothEvents(DeviceEventPtr one, DeviceEventPtr other, DeviceEventPtr measured)
        : one_(std::move(one)), other_(std::move(other)), measured_(std::move(measured)) {}
    Result<bool> is_done() override {
        auto done = one_->is_done();
        return done.is_ok() && done.value() ? other_->is_done() : done;
    }
    Status make_wait(DeviceStream stream) override {
        RUEDA_RETURN_IF_FAILED(one_->make_wait(stream));
        return other_->make_wait(stream);
    }
    std::optional<Times> times() override { return measured_ != nullptr ? measured_->times() : std::nullopt; }

private:
    const DeviceEventPtr one_;
    const DeviceEventPtr other_;
    const DeviceEventPtr measured_;
};

}  // namespace

StepResult SetTask::step_ipc() {
    const StepResult result = ipc_->step();
    last_work_ = ipc_->last_work();
    if (result != StepResult::done) {
        return result;
    }
    const bool has_moved = ipc_->refusal().reason.empty();
    ipc_ = nullptr;
    if (has_moved) {
        staged_ = nullptr;
        return StepResult::done;
    }
    staged_->begin(batch_);
    return StepResult::advanced;
}

StepResult SetTask::step() {
    if (is_ordering_) {
        const StepResult result = order_.step();
        last_work_ = order_.last_work();
        is_ordering_ = result != StepResult::done;
        return is_ordering_ ? result : StepResult::advanced;
    }
    if (ipc_ != nullptr) {
        return step_ipc();
    }
    Task* const current = nccl_ != nullptr ? nccl_ : staged_;
    if (current == nullptr) {
        return StepResult::done;
    }
    const StepResult result = current->step();
    last_work_ = current->last_work();
    if (result != StepResult::done) {
        return result;
    }
    if (nccl_ != nullptr) {
        order_.leave();
        nccl_ = nullptr;
    } else {
        staged_ = nullptr;
    }
    return staged_ == nullptr ? StepResult::done : StepResult::advanced;
}

std::optional<BatchChunks> SetTask::chunks() const {
    const Task* const current = is_ordering_ ? &order_ : nccl_ != nullptr ? nccl_ : staged_;
    return current == nullptr ? std::nullopt : current->chunks();
}

void SetCommunicator::SubBatch::clear() {
    segments.clear();
    ready.clear();
    memory.clear();
    host_segments.clear();
    locations.clear();
}

void SetCommunicator::SubBatch::add(const DeviceBatch& batch, std::size_t tensor) {
    segments.push_back(batch.segments[tensor]);
    if (tensor < batch.ready.size()) {
        ready.push_back(batch.ready[tensor]);
    }
    if (tensor < batch.memory.size()) {
        memory.push_back(batch.memory[tensor]);
    }
    if (tensor < batch.host.segments.size()) {
        const std::size_t local_members = batch.host.locations.size() / batch.host.segments.size();
        const auto of_tensor = batch.host.locations_of(tensor, local_members);
        host_segments.push_back(batch.host.segments[tensor]);
        locations.insert(locations.end(), of_tensor.begin(), of_tensor.end());
    }
}

DeviceBatch SetCommunicator::SubBatch::of(const DeviceBatch& batch) const {
    DeviceBatch part = batch;
    part.segments = segments;
    part.ready = ready;
    part.memory = memory;
    part.host.segments = host_segments;
    part.host.locations = locations;
    return part;
}

SetCommunicator::SetCommunicator(Parts parts, DeviceSet set, Communicator& host)
    : parts_(std::move(parts)),
      set_(std::move(set)),
      host_(host),
      staged_(parts_.staging, host, set_.member, set_.members, parts_.piece_bytes, set_.shared),
      order_(parts_.order, host, set_.device, set_.id),
      task_(order_) {}

SetCommunicator::~SetCommunicator() { end_nccl(); }

void SetCommunicator::end_nccl() noexcept {
    order_.leave();
    parts_.nccl = nullptr;
    parts_.sets->remove(this);
}

/// Tells the other members about this rank's other sets. From now on, those learn about this set.
DeviceCommunicator::Offer SetCommunicator::offer() {
    Device& device = parts_.staging->device();
    Participant own{.member = set_.member,
                    .members = set_.members,
                    .device = device.ordinal(),
                    .host = parts_.identity.host,
                    .process = parts_.identity.process,
                    .shares_device = parts_.identity.shares_device,
                    .uuid = device.uuid(),
                    .path = set_.path};
    own.has_kernels = device.kernels().load().is_ok();
    if (parts_.nccl != nullptr) {
        parts_.nccl->describe(own);
        if (set_.members > 1 && own.refusal.empty()) {
            const auto rank = set_.ranks.empty() ? static_cast<std::int32_t>(set_.member) : set_.ranks[set_.member];
            const auto others = parts_.sets->add(
                {.owner = this, .set = set_.id, .rank = rank, .device = device.ordinal()}, set_.expects_other_sets);
            own.has_other_sets = others.any;
            own.unordered_set = others.without_order.value_or(-1);
        }
    }
    return write_offer(own);
}

Status SetCommunicator::connect(std::span<const Offer> offers) {
    const auto decision = decide(offers, set_.ranks);
    refusal_ = decision.status();
    uses_nccl_ = refusal_.is_ok() && decision.value().uses_nccl;
    has_order_ = uses_nccl_ && decision.value().has_order;
    if (uses_nccl_) {
        parts_.sets->decide(this, has_order_);
    } else {
        end_nccl();
    }
    RUEDA_RETURN_IF_FAILED(refusal_);
    if (uses_nccl_) {
        parts_.nccl->connect(decision.value().id, all_have_kernels(offers) ? Packing::on : Packing::off);
        return {};
    }
    if (decision.value().uses_ipc) {
        ipc_.emplace(parts_.ipc, host_, set_.member, set_.members, parts_.ipc_sizes);
    }
    say(decision.value());
    return {};
}

/// One line in the job's log is enough, because all members have the same reason. CUDA IPC between threads of one
/// process is not expected by anybody, so its refusal is not said.
void SetCommunicator::say(const Decision& decision) const {
    const bool is_wanted = set_.path == DevicePath::host || (set_.path == DevicePath::ipc && decision.uses_ipc);
    const auto& line = is_wanted ? parts_.note : parts_.warn;
    if (!line || set_.member != 0) {
        return;
    }
    if (decision.uses_ipc) {
        line(fmt::format(
            "process set {} moves batches of {} bytes and more on GPUs through GPU memory that the ranks share (CUDA "
            "IPC), and smaller ones through the host's memory: {}",
            set_.id, parts_.ipc_sizes.least_batch, decision.reason));
        return;
    }
    const bool says_ipc = set_.path == DevicePath::ipc;
    line(fmt::format("process set {} moves tensors on GPUs through the host's memory: {}{}{}", set_.id, decision.reason,
                     says_ipc ? ", and CUDA IPC cannot be used: " : "", says_ipc ? decision.ipc_refusal : ""));
}

std::int32_t SetCommunicator::rank_of(std::uint32_t member) const {
    return member < set_.ranks.size() ? set_.ranks[member] : static_cast<std::int32_t>(member);
}

/// The members learn only at the first large batch that they cannot share memory.
void SetCommunicator::say_refusal() {
    if (!ipc_ || has_said_refusal_ || ipc_->refusal().reason.empty()) {
        return;
    }
    has_said_refusal_ = true;
    if (parts_.warn && set_.member == 0) {
        parts_.warn(fmt::format(
            "process set {} moves all tensors on GPUs through the host's memory, because the ranks cannot share GPU "
            "memory (CUDA IPC): rank {}: {}; containers need common PID and IPC namespaces (--pid=host --ipc=host)",
            set_.id, rank_of(ipc_->refusal().member), ipc_->refusal().reason));
    }
}

Result<bool> SetCommunicator::is_connected() {
    RUEDA_RETURN_IF_FAILED(refusal_);
    return uses_nccl_ ? parts_.nccl->is_connected() : Result<bool>(true);
}

Status SetCommunicator::check(Operation operation, const Segment& segment) const {
    return set_.path == DevicePath::nccl && uses_nccl_ ? parts_.nccl->check(operation, segment) : Status();
}

Task& SetCommunicator::start(const DeviceBatch& batch) {
    for_nccl_.clear();
    for_host_.clear();
    for (std::size_t tensor = 0; tensor < batch.segments.size(); ++tensor) {
        const bool is_for_nccl = uses_nccl_ && (set_.path == DevicePath::nccl ||
                                                parts_.nccl->check(batch.operation, batch.segments[tensor]).is_ok());
        (is_for_nccl ? for_nccl_ : for_host_).add(batch, tensor);
    }
    // An empty batch also has an end, so one of the two takes part in it.
    nccl_took_part_ = uses_nccl_ && (for_host_.segments.empty() || !for_nccl_.segments.empty());
    staged_took_part_ = !nccl_took_part_ || !for_host_.segments.empty();
    if (!uses_nccl_ && ipc_ && ipc_->takes(batch)) {
        ipc_->begin(batch);
        task_.begin(*ipc_, staged_, for_host_.of(batch));
        return task_;
    }
    if (staged_took_part_) {
        staged_.begin(for_host_.of(batch));
    }
    if (nccl_took_part_ && staged_took_part_) {
        staged_.reserve();
    }
    Task* const nccl = nccl_took_part_ && staged_.failed().is_ok() ? &parts_.nccl->start(for_nccl_.of(batch)) : nullptr;
    task_.begin(nccl != nullptr && begin_order(batch), nccl, staged_took_part_ ? &staged_ : nullptr);
    may_lag_ = staged_took_part_;
    return task_;
}

/// Begins to give the batch a place in the order of all process sets. Returns whether it needs one: a batch without
/// tensors does not, because it has no work for NCCL. A batch that is also staged has just allocated pinned memory, for
/// which the driver may wait for the device, so its members meet, too.
bool SetCommunicator::begin_order(const DeviceBatch& batch) {
    if (!has_order_ || batch.segments.empty()) {
        return false;
    }
    const Batch& host = batch.host;
    const std::size_t local_members = host.segments.empty() ? 0 : host.locations.size() / host.segments.size();
    order_.begin(local_members, may_lag_ || staged_took_part_ ? OrderTask::First::meet : OrderTask::First::propose);
    return true;
}

LaunchPhase SetCommunicator::launch_phase() const {
    if (task_.is_ordering()) {
        return order_.phase();
    }
    if (task_.is_at_ipc()) {
        return ipc_->phase();
    }
    return task_.is_at_nccl() ? parts_.nccl->launch_phase() : staged_.phase();
}

/// The members of a group can be in several batches, and the caller waits for the end of the last one only. Each way
/// has a stream of its own, so this end also covers the earlier work of the way that did not take part.
DeviceEventPtr SetCommunicator::end() {
    say_refusal();
    const DeviceEventPtr other = uses_nccl_ ? parts_.nccl->end() : ipc_ ? ipc_->end() : nullptr;
    if (other != nullptr && staged_.end() != nullptr) {
        return std::make_shared<BothEvents>(other, staged_.end(), nccl_took_part_ ? other : nullptr);
    }
    return other != nullptr ? other : staged_.end();
}

Status SetCommunicator::failed() {
    RUEDA_RETURN_IF_FAILED(refusal_);
    RUEDA_RETURN_IF_FAILED(staged_.failed());
    RUEDA_RETURN_IF_FAILED(ipc_ ? ipc_->failed() : Status());
    return uses_nccl_ && parts_.nccl != nullptr ? parts_.nccl->failed() : Status();
}

void SetCommunicator::abandon() noexcept {
    order_.leave();
    if (parts_.nccl != nullptr && task_.is_at_nccl()) {
        parts_.nccl->abandon();
    }
}

void SetCommunicator::abort() noexcept {
    order_.leave();
    if (uses_nccl_ && parts_.nccl != nullptr) {
        parts_.nccl->abort();
    }
}

}  // namespace rueda::collectives::cuda
