// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/nccl/calls.hpp"
#include "collectives/cuda/nccl/nccl_failure.hpp"
#include "collectives/cuda/nccl/registrations.hpp"
#include "collectives/cuda/nccl_api.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "ops/cuda/launch.hpp"

namespace rueda::collectives::cuda {

/// Gives one batch to the device. The task goes through these phases:
///
///     waits_for_turn   another communicator of the device puts its work into the stream, or the device still works
///                      with memory whose registration must end before this batch
///     launching        Rueda's stream waits for the tensors' events; then a kernel packs small tensors; then come
///                      all calls of NCCL in one group
///     is_in_progress   NCCL puts its work into the stream, in a thread of its own
///     done             the stream contains all work of the batch: behind NCCL's work, a kernel that unpacks the
///                      small tensors, and then the end event
///     has_failed       the task cannot continue
///
/// While NCCL is in progress, nothing may be put into the stream, and no function of NCCL may be called on this
/// communicator (NCCL User Guide, "Group Calls" and ncclCommInitRankConfig, on blocking = 0). An event that is recorded
/// during this time could come before NCCL's work in the stream.
///
/// Threads: one at a time.
class LaunchTask final : public Task {
public:
    LaunchTask(Device& device, FailedMember where) : device_(device), where_(where), registrations_(device, where) {}

    /// Call this before begin(). All members must pass the same value of `packing`. Packing::on needs kernels on this
    /// device.
    void set_communicator(const NcclApi& nccl, NcclCommunicator communicator, Packing packing);
    void begin(const DeviceBatch& batch);
    StepResult step() override;
    /// If `measures` is true, the end events of the next batches also record when the device does the work of the
    /// batch.
    void measure(bool measures) { measures_ = measures; }

    [[nodiscard]] const Status& failed() const { return failure_; }
    [[nodiscard]] const DeviceEventPtr& end() const { return end_; }
    [[nodiscard]] DeviceCall last_call() const;
    /// Whether NCCL has ended everything that this task began. Only then may NCCL's functions be called.
    [[nodiscard]] bool is_idle() const { return phase_ == Phase::done || phase_ == Phase::waits_for_turn; }
    [[nodiscard]] bool waits_for_turn() const { return phase_ == Phase::waits_for_turn; }
    /// The memory that the communicator has registered. It may be used only while is_idle() is true.
    [[nodiscard]] Registrations& registrations() { return registrations_; }
    /// Gives up the turn, if the task has it. The turn is the right to put work into the device's stream. Call this
    /// when the communicator ends.
    void abandon() noexcept;

private:
    enum class Phase : std::uint8_t { waits_for_turn, is_in_progress, done, has_failed };

    StepResult fail(Status reason);
    [[nodiscard]] Result<bool> begin_launch();
    [[nodiscard]] Status launch();
    [[nodiscard]] Status wait_for_tensors(CudaStream stream);
    [[nodiscard]] Status prepare_memory(CudaStream stream);
    enum class Direction : std::uint8_t { pack, unpack };
    [[nodiscard]] Status copy_packed(Direction direction, CudaStream stream);
    [[nodiscard]] Status create_reductions();
    [[nodiscard]] Status call_nccl(CudaStream stream);
    [[nodiscard]] NcclResult call(const NcclCall& one, CudaStream stream, const char*& function);
    [[nodiscard]] Result<bool> is_launched();
    [[nodiscard]] Status finish();
    [[nodiscard]] std::byte* at(const Place& place) const;
    [[nodiscard]] Status nccl_error(const char* function, NcclResult result) const;

    Device& device_;
    const FailedMember where_;
    const NcclApi* nccl_ = nullptr;
    NcclCommunicator communicator_ = nullptr;
    Packing packing_ = Packing::off;
    Registrations registrations_;

    Phase phase_ = Phase::done;
    DeviceBatch batch_;
    CallPlan plan_;
    DeviceAddress scratch_ = 0;
    std::vector<NcclReduction> reductions_;  // a reduction of NCCL for each factor of the plan
    std::vector<ops::cuda::BatchItem> items_;
    Status planned_;
    Status failure_;
    bool measures_ = false;
    TimedBegin begun_;  // event before the batch's work, if the batch is measured
    DeviceEventPtr end_;
};

}  // namespace rueda::collectives::cuda
