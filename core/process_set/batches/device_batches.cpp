// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/device_batches.hpp"

#include <algorithm>
#include <utility>

#include "base/system/clock.hpp"
#include "collectives/operation.hpp"
#include "core/operations/device_memory.hpp"
#include "core/process_set/batches/resident_blocks.hpp"

namespace rueda::core {

using collectives::DeviceCommunicator;
using collectives::Operation;
using collectives::StepResult;
using collectives::StepWork;

namespace {

/// While the device works on a batch, this rank checks at this interval whether the batch's inputs are ready. The
/// interval is long, because a check costs one call of the driver for each input, and only stall reports need its
/// result.
constexpr std::int64_t kLookAtInputsNs = 100'000'000;

DeviceState::Phase published_phase(collectives::LaunchPhase phase) {
    switch (phase) {
        case collectives::LaunchPhase::agrees_on_order:
            return DeviceState::Phase::agrees_on_order;
        case collectives::LaunchPhase::waits_for_set:
            return DeviceState::Phase::waits_for_set;
        case collectives::LaunchPhase::waits_for_turn:
            return DeviceState::Phase::waits_for_turn;
        case collectives::LaunchPhase::launching:
            break;
        case collectives::LaunchPhase::waits_for_inputs:
            return DeviceState::Phase::waits_for_inputs;
        case collectives::LaunchPhase::copies:
            return DeviceState::Phase::copies;
        case collectives::LaunchPhase::on_cpu:
            return DeviceState::Phase::on_cpu;
        case collectives::LaunchPhase::in_peer_memory:
            return DeviceState::Phase::in_peer_memory;
        case collectives::LaunchPhase::meets_peers:
            return DeviceState::Phase::meets_peers;
    }
    return DeviceState::Phase::launching;
}

}  // namespace

collectives::Task& DeviceBatches::start(const CalledBatch& batch, collectives::Communicator& host, bool after_splits) {
    batch_ = &batch;
    after_splits_ = after_splits;
    if (is_refused_for_good_) {
        phase_ = Phase::refused;
    } else if (communicator_ != nullptr) {
        start_on_device();
    } else if (const Status begun = begin_exchange(host); !begun.is_ok()) {
        failed_ = begun;
    }
    return task_;
}

StepResult DeviceBatches::LaunchTask::step() {
    const StepResult result = batches_.step();
    last_work_ = batches_.work_;
    return result;
}

std::optional<collectives::BatchChunks> DeviceBatches::LaunchTask::chunks() const {
    const bool is_inner = batches_.phase_ == Phase::exchanging || batches_.phase_ == Phase::launching;
    return is_inner && batches_.inner_ != nullptr ? batches_.inner_->chunks() : std::nullopt;
}

StepResult DeviceBatches::step() {
    work_ = StepWork::none;
    if (!failed_.is_ok()) {
        return StepResult::waiting;
    }
    switch (phase_) {
        case Phase::exchanging:
            return exchange();
        case Phase::connecting:
            return connect();
        case Phase::launching:
            return launch();
        case Phase::launched:
        case Phase::refused:
            break;
    }
    return StepResult::done;
}

StepResult DeviceBatches::step_inner() {
    const StepResult result = inner_->step();
    work_ = inner_->last_work();
    return result;
}

/// Returns the device and stream that the caller on this rank uses. Returns null if this rank has joined: then no
/// caller on this rank has started the operation.
const DeviceUse* DeviceBatches::own_use() const {
    for (const TensorEntry* entry : batch_->entries()) {
        if (entry->request.device != nullptr) {
            return entry->request.device.get();
        }
    }
    return nullptr;
}

/// Begins the allgather of the offers (what each member needs to connect to the others). A rank that joined before its
/// first device tensor has no device. Its offer consists of zeros, which no member can accept.
Status DeviceBatches::begin_exchange(collectives::Communicator& host) {
    phase_ = Phase::exchanging;
    refusal_ = {};
    own_offer_.assign(1, {});
    if (const DeviceUse* use = own_use(); use != nullptr) {
        auto made = use->runtime->make_communicator({.device = use->stream.device,
                                                     .member = view_.set_rank,
                                                     .members = view_.set_size,
                                                     .id = view_.identity.id,
                                                     .path = path_,
                                                     .ranks = view_.identity.ranks,
                                                     .expects_other_sets = use->is_in_several_sets,
                                                     .shared = shared_memory(*use)},
                                                    host);
        RUEDA_RETURN_IF_FAILED(made.status());
        communicator_ = std::move(made).value();
        device_ = use->stream.device;
        own_offer_.front() = communicator_->offer();
    }
    publish(DeviceState::Phase::offering);
    offers_.assign(view_.set_size, {});
    exchange_segments_.assign(1, {.dtype = DType::uint8,
                                  .count = DeviceCommunicator::kOfferBytes,
                                  .input = own_offer_.front().data(),
                                  .output = offers_.front().data()});
    exchange_locations_.assign(view_.extent().members, {.first_dimension = 1});
    exchange_rows_.assign(view_.set_size, 1);
    inner_ = &host.start({.operation = Operation::allgather,
                          .segments = exchange_segments_,
                          .locations = exchange_locations_,
                          .splits = {},
                          .rows = exchange_rows_});
    return {};
}

/// Returns the memory that the members of the host share. Returns null for a set on several hosts, because a member of
/// such a set cannot reach the shared memory of all members.
std::shared_ptr<collectives::SharedMemory> DeviceBatches::shared_memory(const DeviceUse& use) const {
    if (use.heap == nullptr || view_.extent().members != view_.set_size) {
        return nullptr;
    }
    return std::make_shared<ResidentBlocks>(view_, *use.heap);
}

StepResult DeviceBatches::exchange() {
    const StepResult result = step_inner();
    if (result != StepResult::done) {
        return result;
    }
    const auto absent = std::find(offers_.begin(), offers_.end(), DeviceCommunicator::Offer{});
    if (absent != offers_.end()) {
        refusal_ = failure(ErrorCode::unsupported,
                           "rank {} called join() before the first operation of this process set on a GPU, so its GPU "
                           "is not known; run one operation on all ranks before a rank calls join()",
                           view_.identity.ranks[static_cast<std::size_t>(absent - offers_.begin())]);
    } else {
        refusal_ = communicator_->connect(offers_);
        is_refused_for_good_ = !refusal_.is_ok();
    }
    phase_ = refusal_.is_ok() ? Phase::connecting : Phase::refused;
    publish(refusal_.is_ok() ? DeviceState::Phase::connecting : DeviceState::Phase::idle);
    return StepResult::advanced;
}

StepResult DeviceBatches::connect() {
    const Result<bool> connected = communicator_->is_connected();
    if (!connected.is_ok()) {
        return fail(connected.status());
    }
    if (!connected.value()) {
        work_ = StepWork::device_wait;
        return StepResult::polling;
    }
    start_on_device();
    return StepResult::advanced;
}

/// Gives the batch to the device communicator.
void DeviceBatches::start_on_device() {
    phase_ = Phase::launching;
    publish(DeviceState::Phase::launching);
    for (const TensorEntry* entry : batch_->entries()) {
        const DeviceUse* const use = entry->request.device.get();
        if (use != nullptr && use->stream.device != device_) {
            failed_ = failure(ErrorCode::internal, "tensor '{}' is on device {}, and the process set uses device {}",
                              entry->name, use->stream.device, device_);
            return;
        }
    }
    collectives::Batch batch = batch_->for_communicator();
    take_possible(batch);
    if (segments_.empty()) {
        phase_ = Phase::launched;
        return;
    }
    batch_->own_splits(splits_);
    communicator_->measure(ends_.has_timeline());
    const Operation operation = batch.operation;
    batch.operation = after_splits_ ? Operation::alltoall : operation;
    batch.segments = segments_;
    batch.locations = locations_;
    inner_ = &communicator_->start({.operation = operation,
                                    .segments = segments_,
                                    .ready = ready_,
                                    .memory = memory_,
                                    .rows = batch.rows,
                                    .splits = splits_,
                                    .host = batch});
}

/// Selects the tensors of the batch on which the device communicator can execute the operation. The reason why a tensor
/// is left out is in `refusals_`. All members leave out the same tensors.
void DeviceBatches::take_possible(const collectives::Batch& batch) {
    segments_.clear();
    locations_.clear();
    ready_.clear();
    memory_.clear();
    refusals_.assign(batch.segments.size(), {});
    for (std::size_t i = 0; i < batch.segments.size(); ++i) {
        refusals_[i] = communicator_->check(batch.operation, batch.segments[i]);
        if (refusals_[i].is_ok()) {
            const DeviceUse* const use = batch_->entries()[i]->request.device.get();
            const auto locations = batch.locations_of(i, view_.extent().members);
            segments_.push_back(batch.segments[i]);
            locations_.insert(locations_.end(), locations.begin(), locations.end());
            ready_.push_back(use != nullptr ? use->ready : nullptr);
            memory_.push_back(memory_of(use, locations));
        }
    }
}

/// Returns this rank's memory of a tensor and, on one host, what the members announced about their memory. A member of
/// a set on several hosts does not know the announcements of other hosts, so such a set registers no memory.
collectives::TensorMemory DeviceBatches::memory_of(const DeviceUse* use,
                                                   std::span<const collectives::Location> locations) const {
    collectives::TensorMemory memory;
    if (use != nullptr) {
        memory.input = use->input_memory;
        memory.output = use->output_memory;
    }
    if (view_.extent().members == view_.set_size) {
        memory.use = agreed_memory(locations);
    }
    return memory;
}

StepResult DeviceBatches::launch() {
    const StepResult result = step_inner();
    if (result == StepResult::done) {
        phase_ = Phase::launched;
        return result;
    }
    if (result == StepResult::waiting || result == StepResult::polling) {
        publish(published_phase(communicator_->launch_phase()));
        if (const Status failure = communicator_->failed(); !failure.is_ok()) {
            return fail(failure);
        }
    }
    return result;
}

StepResult DeviceBatches::fail(const Status& reason) {
    failed_ = reason;
    return StepResult::waiting;
}

void DeviceBatches::finish(std::span<TensorEntry* const> entries) {
    const std::uint64_t position = batch_->position();
    batch_ = nullptr;
    inner_ = nullptr;
    publish(DeviceState::Phase::idle);
    if (phase_ == Phase::refused) {
        communicator_ = nullptr;
        segments_.clear();
        refusals_.assign(entries.size(), refusal_);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!refusals_[i].is_ok()) {
            refusals_[i] = failure(refusals_[i].code(), "tensor '{}': {}", entries[i]->name, refusals_[i].message());
        }
    }
    // All memory is allocated before the state of any operation changes, so that no operation is lost if memory has run
    // out.
    Launched& batch = launched_.emplace_back();
    batch.completions.reserve(entries.size());
    batch.records.reserve(entries.size());
    if (!segments_.empty()) {
        batch.about = describe(entries, position);
        batch.looked_ns = batch.about.since_ns;
        batch.inputs = ready_;
        batch.memory = memory_;
        batch.end = communicator_->end();
    }
    ready_.clear();
    memory_.clear();
    launched_count_.store(launched_.size(), std::memory_order_relaxed);
    launch_operations(batch, entries);
    if (batch.records.empty()) {
        launched_.pop_back();
        launched_count_.store(launched_.size(), std::memory_order_release);
    } else if (launched_.size() == 1) {
        publish_oldest();
    }
}

/// Ends the refused operations of a batch with an error. Launches the other operations, which become part of `batch`.
void DeviceBatches::launch_operations(Launched& batch, std::span<TensorEntry* const> entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!refusals_[i].is_ok()) {
            ends_.complete(*entries[i], refusals_[i]);
            continue;
        }
        batch.records.push_back(entries[i]->recorded);
        if (Completion* const completion = ends_.launch(*entries[i]); completion != nullptr) {
            completion->launched(batch.end);
            batch.completions.push_back(completion);
        }
    }
}

/// Describes the batch for stall reports. At least one of `entries` is not refused.
LaunchedBatch DeviceBatches::describe(std::span<TensorEntry* const> entries, std::uint64_t position) const {
    std::size_t first = 0;
    while (!refusals_[first].is_ok()) {
        ++first;
    }
    const TensorEntry& entry = *entries[first];
    const bool is_unnamed = entry.slot < view_.extent().unnamed_slots;
    return {.position = position,
            .since_ns = base::monotonic_ns(),
            .name = is_unnamed ? std::string() : entry.name,
            .call = is_unnamed ? view_.call_of_unnamed(entry.slot, entry.generation) : 0,
            .operation = static_cast<Operation>(entry.request.metadata.operation),
            .others = segments_.size() - 1,
            .device = device_,
            .work = communicator_->last_call()};
}

/// Publishes the phase of this rank's batch, for stall reports of other ranks.
void DeviceBatches::publish(DeviceState::Phase phase) {
    state_.phase = phase;
    state_.device = device_;
    state_.set = phase == DeviceState::Phase::waits_for_set ? communicator_->awaited_set() : -1;
    // The stores here and in publish_oldest() are relaxed, because stall reports read these values only seconds later.
    view_.memory.cursor(view_.rank).device.store(state_.word(), std::memory_order_relaxed);
}

/// Publishes which batch the device works on, for stall reports of other ranks.
void DeviceBatches::publish_oldest() {
    auto& cursor = view_.memory.cursor(view_.rank);
    state_.inputs = DeviceState::Inputs::unknown;
    state_.call = launched_.empty() ? collectives::DeviceCall{} : launched_.front().about.work;
    publish(state_.phase);
    if (!launched_.empty()) {
        cursor.launched_ns.store(launched_.front().about.since_ns, std::memory_order_relaxed);
    }
    cursor.launched.store(launched_.empty() ? 0 : launched_.front().about.position + 1, std::memory_order_relaxed);
    const std::lock_guard lock(oldest_mutex_);
    oldest_.reset();
    if (!launched_.empty()) {
        // The description is moved. To copy its name could fail for lack of memory, but abandon(), which calls this
        // function, must not fail.
        oldest_.emplace(std::move(launched_.front().about));
    }
}

/// Checks whether the batch still waits on the device for earlier work of the program.
void DeviceBatches::look_at_inputs(Launched& batch) {
    const std::int64_t now_ns = base::monotonic_ns();
    if (state_.inputs == DeviceState::Inputs::ready || now_ns - batch.looked_ns < kLookAtInputsNs) {
        return;
    }
    batch.looked_ns = now_ns;
    const bool is_awaited =
        std::any_of(batch.inputs.begin(), batch.inputs.end(), [](const collectives::DeviceEventPtr& input) {
            const Result<bool> done = input == nullptr ? Result<bool>(true) : input->is_done();
            return done.is_ok() && !done.value();
        });
    state_.inputs = is_awaited ? DeviceState::Inputs::awaited : DeviceState::Inputs::ready;
    publish(state_.phase);
}

bool DeviceBatches::turn() {
    bool any = false;
    while (!launched_.empty() && failed_.is_ok()) {
        const Result<bool> done = launched_.front().end->is_done();
        if (!done.is_ok()) {
            failed_ = done.status();
            break;
        }
        if (!done.value()) {
            failed_ = communicator_->failed();
            look_at_inputs(launched_.front());
            break;
        }
        note_times(launched_.front());
        end_first({});
        any = true;
    }
    return any;
}

/// Records for a timeline when the device did the work of a batch.
void DeviceBatches::note_times(const Launched& batch) {
    if (const auto times = batch.end->times(); times) {
        ends_.note_gpu(batch.about.operation, device_, batch.records.size(), times->begin_ns, times->end_ns);
    }
}

/// Ends the operations of the batch that was launched first. Subtracts the batch from `launched_count_` only after
/// that, because a shutdown must wait until the operations have ended.
void DeviceBatches::end_first(const Status& status) {
    const Launched batch = std::move(launched_.front());
    launched_.pop_front();
    publish_oldest();
    for (const std::uint64_t record : batch.records) {
        ends_.end_launched(record, status.code());
    }
    for (Completion* completion : batch.completions) {
        completion->complete_one(status);
    }
    launched_count_.store(launched_.size(), std::memory_order_release);
}

void DeviceBatches::abandon(const Status& reason) noexcept {
    if (communicator_ != nullptr && ends_.has_aborted()) {
        communicator_->abort();
        // The destructor of an aborted communicator waits for a limited time until the communicator's kernels have
        // ended, because these kernels use the operations' memory.
        communicator_ = nullptr;
    } else if (communicator_ != nullptr && batch_ != nullptr) {
        communicator_->abandon();
    }
    batch_ = nullptr;
    inner_ = nullptr;
    publish(DeviceState::Phase::idle);
    while (!launched_.empty()) {
        end_first(reason);
    }
}

}  // namespace rueda::core
