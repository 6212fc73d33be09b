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

/// An event that is reached when two other events are reached. It returns the times of a third event, `measured`, which
/// may be null.
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

StepResult SetCommunicator::SetTask::step_ipc() {
    const StepResult result = ipc_->step();
    last_work_ = ipc_->last_work();
    if (result != StepResult::done) {
        return result;
    }
    const bool has_moved = ipc_->refusal().reason.empty();
    owner_.ipc_took_part_ = has_moved;
    ipc_ = nullptr;
    if (has_moved) {
        staged_ = nullptr;
        return StepResult::done;
    }
    staged_->begin(batch_);
    return StepResult::advanced;
}

StepResult SetCommunicator::SetTask::step() {
    if (is_joining_) {
        const StepResult result = owner_.step_offers(last_work_);
        if (result != StepResult::done) {
            return result;
        }
        is_joining_ = false;
        owner_.start_parts(owner_.joining_);
        return StepResult::advanced;
    }
    if (is_ordering_) {
        const StepResult result = owner_.order_.step();
        last_work_ = owner_.order_.last_work();
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
        owner_.order_.leave();
        nccl_ = nullptr;
    } else {
        staged_ = nullptr;
    }
    return staged_ == nullptr ? StepResult::done : StepResult::advanced;
}

std::optional<BatchChunks> SetCommunicator::SetTask::chunks() const {
    const Task* const parts = nccl_ != nullptr ? nccl_ : staged_;
    const Task* const current = is_joining_ ? owner_.offers_.task : is_ordering_ ? &owner_.order_ : parts;
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
        const auto of_tensor = batch.host.locations_of(tensor, batch.host.local_members());
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
      order_(parts_.order, parts_.sets, this, host, set_.device, set_.id),
      task_(*this) {}

SetCommunicator::~SetCommunicator() { end_nccl(); }

void SetCommunicator::end_nccl() noexcept {
    order_.leave();
    parts_.nccl = nullptr;
    parts_.sets->remove(this);
}

/// The offer tells the other members about this rank's other sets. This function also registers this set, so from now
/// on the offers of the other sets mention this set.
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
            // If `may_change_` is true, another set has kept this set from using NCCL. The offer then says that there
            // are other sets, even if no other set uses NCCL now.
            const auto others = parts_.sets->add(
                {.owner = this, .set = set_.id, .rank = rank_of(set_, set_.member), .device = device.ordinal()},
                set_.expects_other_sets || may_change_);
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
    const bool could_change = may_change_;
    may_change_ = refusal_.is_ok() && decision.value().may_change;
    batches_ = 0;
    if (uses_nccl_) {
        order_.set_order(decision.value().has_order);
        parts_.sets->decide(this, decision.value().has_order);
        parts_.nccl->connect(decision.value().id, all_have_kernels(offers) ? Packing::on : Packing::off);
        say_nccl(decision.value());
        return {};
    }
    if (may_change_) {
        parts_.sets->remove(this);
    } else {
        end_nccl();
    }
    RUEDA_RETURN_IF_FAILED(refusal_);
    if (decision.value().uses_ipc && !ipc_) {
        ipc_.emplace(parts_.ipc, host_, set_.member, set_.members, parts_.ipc_sizes);
    }
    if (!could_change || !may_change_) {
        say(decision.value());
    }
    return {};
}

/// The line is a warning if ranks share a device, because NCCL calls this feature experimental.
void SetCommunicator::say_nccl(const Decision& decision) const {
    const auto& line = decision.shares_devices ? parts_.warn : parts_.note;
    if (line && set_.member == 0) {
        line(fmt::format("process set {} moves tensors on GPUs by NCCL {}{}", set_.id,
                         name_of_nccl_version(decision.nccl_version),
                         decision.shares_devices
                             ? ", although some of its ranks share a GPU: NCCL_MULTI_RANK_GPU_ENABLE=1 allows this, "
                               "and NVIDIA calls it experimental. RUEDA_GPU_PATH=ipc does without it"
                             : ""));
    }
}

/// Logs how tensors move if NCCL is not used. Only the first member writes the line, because all members have the same
/// reason. If the setting asks for CUDA IPC and the members cannot use it, the line also says why.
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

/// Warns, once, if the members cannot share memory. connect() cannot write this warning, because the members find this
/// out only at the first large batch.
void SetCommunicator::say_refusal() {
    if (!ipc_ || has_said_refusal_ || ipc_->refusal().reason.empty()) {
        return;
    }
    has_said_refusal_ = true;
    if (parts_.warn && set_.member == 0) {
        parts_.warn(fmt::format(
            "process set {} moves all tensors on GPUs through the host's memory, because the ranks cannot share GPU "
            "memory (CUDA IPC): rank {}: {}; containers need common PID and IPC namespaces (--pid=host --ipc=host)",
            set_.id, rank_of(set_, ipc_->refusal().member), ipc_->refusal().reason));
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
    if (is_time_for_offers(batch)) {
        begin_offers(batch);
    } else {
        start_parts(batch);
    }
    return task_;
}

bool SetCommunicator::is_time_for_offers(const DeviceBatch& batch) {
    return may_change_ && !batch.segments.empty() && ++batches_ % parts_.order_interval == 0;
}

/// Begins an allgather of new offers, like the exchange that the engine makes before the first batch. With its offer, a
/// member tells the others about its device and its NCCL.
void SetCommunicator::begin_offers(const DeviceBatch& batch) {
    joining_ = batch;
    offers_.own.assign(1, offer());
    offers_.all.assign(set_.members, {});
    offers_.segment = {.dtype = DType::uint8,
                       .count = kOfferBytes,
                       .input = offers_.own.front().data(),
                       .output = offers_.all.front().data()};
    offers_.locations.assign(batch.host.local_members(), {.first_dimension = 1});
    offers_.rows.assign(set_.members, 1);
    offers_.task = &host_.start({.operation = Operation::allgather,
                                 .segments = {&offers_.segment, 1},
                                 .locations = offers_.locations,
                                 .splits = {},
                                 .rows = offers_.rows});
    task_.is_joining_ = true;
}

/// Continues the exchange of new offers. Returns `done` when the members have decided again how their tensors move, and
/// are connected. After a failure, failed() returns the reason.
StepResult SetCommunicator::step_offers(StepWork& work) {
    if (offers_.task != nullptr) {
        const StepResult result = offers_.task->step();
        work = offers_.task->last_work();
        if (result != StepResult::done) {
            return result;
        }
        offers_.task = nullptr;
        static_cast<void>(connect(offers_.all));
    }
    work = StepWork::device_wait;
    const auto connected = is_connected();
    return connected.is_ok() && connected.value() ? StepResult::done : StepResult::polling;
}

void SetCommunicator::start_parts(const DeviceBatch& batch) {
    for_nccl_.clear();
    for_host_.clear();
    ipc_took_part_ = false;
    for (std::size_t tensor = 0; tensor < batch.segments.size(); ++tensor) {
        const bool is_for_nccl = uses_nccl_ && (set_.path == DevicePath::nccl ||
                                                parts_.nccl->check(batch.operation, batch.segments[tensor]).is_ok());
        (is_for_nccl ? for_nccl_ : for_host_).add(batch, tensor);
    }
    // A batch without tensors also needs an event at its end, so either NCCL or `staged_` takes part in the batch.
    nccl_took_part_ = uses_nccl_ && (for_host_.segments.empty() || !for_nccl_.segments.empty());
    staged_took_part_ = !nccl_took_part_ || !for_host_.segments.empty();
    if (!uses_nccl_ && ipc_ && ipc_->takes(batch)) {
        ipc_->measure(measures_);
        ipc_->begin(batch);
        task_.nccl_ = nullptr;
        task_.ipc_ = &*ipc_;
        task_.staged_ = &staged_;
        task_.batch_ = for_host_.of(batch);
        return;
    }
    if (staged_took_part_) {
        staged_.begin(for_host_.of(batch));
    }
    if (nccl_took_part_ && staged_took_part_) {
        staged_.reserve();
    }
    Task* const nccl = nccl_took_part_ && staged_.failed().is_ok() ? &parts_.nccl->start(for_nccl_.of(batch)) : nullptr;
    task_.nccl_ = nccl;
    task_.ipc_ = nullptr;
    task_.staged_ = staged_took_part_ ? &staged_ : nullptr;
    task_.is_ordering_ = nccl != nullptr && begin_order(batch);
    // A batch without tensors does not make the members wait for each other, so it does not reset `may_lag_`.
    may_lag_ = staged_took_part_ || (may_lag_ && batch.segments.empty());
}

/// Begins to give the batch a place in the order of all process sets, or to ask the other members whether it needs a
/// place. Returns whether a task was begun for which the batch must wait. A batch without tensors need not wait,
/// because NCCL has nothing to do for it. If a part of the batch is staged (moved through the host's memory), this
/// member has just allocated pinned memory. The driver may have made it wait for the device meanwhile, so the members
/// wait for each other before such a batch.
bool SetCommunicator::begin_order(const DeviceBatch& batch) {
    using First = OrderTask::First;
    if (set_.members == 1 || batch.segments.empty()) {
        return false;
    }
    if (order_.has_order()) {
        order_.begin(batch.host.local_members(), may_lag_ || staged_took_part_ ? First::meet : First::propose);
        return true;
    }
    const bool asks = ++batches_ % parts_.order_interval == 0;
    if (asks) {
        order_.begin(batch.host.local_members(), First::ask);
    }
    return asks;
}

LaunchPhase SetCommunicator::launch_phase() const {
    if (task_.is_joining_) {
        return offers_.task != nullptr ? LaunchPhase::agrees_on_order : LaunchPhase::launching;
    }
    if (task_.is_ordering_) {
        return order_.phase();
    }
    if (task_.ipc_ != nullptr) {
        return ipc_->phase();
    }
    return task_.nccl_ != nullptr ? parts_.nccl->launch_phase() : staged_.phase();
}

/// If NCCL moved a part of the batch, returns NCCL's call, even if other tensors moved through the host's memory. For
/// those tensors, the host has already done its part, and only copies remain.
DeviceCall SetCommunicator::last_call() const {
    if (nccl_took_part_) {
        return parts_.nccl->last_call();
    }
    return ipc_took_part_ ? DeviceCall::peer_kernels : DeviceCall::copies;
}

/// Returns an event that comes after the work of the last batch and of all earlier batches. The tensors of a group can
/// be in several batches, and the caller waits only for the event of the last batch. NCCL, CUDA IPC and `staged_` each
/// have a stream of their own. A stream that has no work of the last batch may still have work of an earlier batch, so
/// the event covers all three streams.
DeviceEventPtr SetCommunicator::end() {
    say_refusal();
    const DeviceEventPtr nccl = uses_nccl_ ? parts_.nccl->end() : nullptr;
    const DeviceEventPtr ipc = ipc_ ? ipc_->end() : nullptr;
    const DeviceEventPtr measured = nccl_took_part_ ? nccl : ipc_took_part_ ? ipc : nullptr;
    DeviceEventPtr end = nccl;
    for (const DeviceEventPtr& other : {ipc, staged_.end()}) {
        if (end != nullptr && other != nullptr) {
            end = std::make_shared<BothEvents>(end, other, measured);
        } else if (other != nullptr) {
            end = other;
        }
    }
    return end;
}

Status SetCommunicator::failed() {
    RUEDA_RETURN_IF_FAILED(refusal_);
    RUEDA_RETURN_IF_FAILED(staged_.failed());
    RUEDA_RETURN_IF_FAILED(ipc_ ? ipc_->failed() : Status());
    return uses_nccl_ && parts_.nccl != nullptr ? parts_.nccl->failed() : Status();
}

void SetCommunicator::abandon() noexcept {
    order_.leave();
    if (parts_.nccl != nullptr && task_.nccl_ != nullptr) {
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
