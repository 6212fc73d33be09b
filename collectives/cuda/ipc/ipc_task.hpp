// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "collectives/cuda/ipc/host_exchange.hpp"
#include "collectives/cuda/ipc/ipc_connection.hpp"
#include "collectives/cuda/ipc/ipc_device.hpp"
#include "collectives/cuda/ipc/ipc_rows.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/ready_events.hpp"
#include "collectives/cuda/staged/staging_plan.hpp"

namespace rueda::collectives::cuda {

struct IpcSizes {
    /// The size in bytes of a slot, a buffer in device memory that all members can read. Each member has two slots, and
    /// scratch memory of the size of one slot: together 96 MiB. With smaller slots more rounds are needed. In each
    /// round the device serves its processes one after the other, which takes 280 to 520 µs for two processes on an
    /// H200.
    std::size_t slot = std::size_t{32} << 20;
    /// A batch with fewer bytes than this is staged (moved through the host's memory). On an H200 with two processes,
    /// an allreduce of 2 MiB took 395 µs staged and 456 µs by IPC. An allreduce of 4 MiB took 706 µs staged and 523 µs
    /// by IPC.
    std::size_t least_batch = std::size_t{3} << 20;
};

/// Moves one batch of large device tensors through device memory that the members have opened by CUDA IPC.
///
/// The batch is divided into pieces. Each piece goes through these states:
///
///     filled      each member's kernel copies the piece's inputs into the member's slot
///     met         the host of each member has seen the end of this kernel, and all members know this
///     combined    each member's kernel reads the slots of all members, and writes the member's outputs
///
/// Piece n uses slot n mod 2, and the numbering continues from batch to batch. In one *round* a member puts the kernels
/// "combine piece n − 1" and "fill piece n" into the stream, and then an event. When the host has seen the event, the
/// member *meets* the others: it waits until all members have come to the same round. At that time, all members have
/// also combined piece n − 1, so the slot of piece n − 1 is free for piece n + 1. The members therefore meet only once
/// for each piece.
///
/// The device never waits for another process: not for an event of another process, and not for a flag in memory. If a
/// member dies, the others wait on the host, where the abort ends the wait.
///
/// Threads: one at a time.
class IpcTask final : public Task {
public:
    /// How long the destructor of a task waits for kernels that the device has not finished.
    static constexpr std::chrono::milliseconds kEndLimit{1000};

    /// `host` is the communicator for the CPU, and must outlive the task. All members are on this host, in processes of
    /// their own. The slots' size is a multiple of 64.
    IpcTask(std::shared_ptr<IpcDevice> device, Communicator& host, std::uint32_t member, std::uint32_t members,
            IpcSizes sizes);
    ~IpcTask() override;
    IpcTask(const IpcTask&) = delete;
    IpcTask& operator=(const IpcTask&) = delete;

    /// Whether this task moves the batch. All members get the same answer. The answer is false in these cases:
    /// - the batch is small, or uses Adasum;
    /// - a member has called join() for a tensor of the batch;
    /// - a member cannot share memory (refusal());
    /// - the members do not share one arena, for example in containers on one machine. A member then does not know
    ///   whether the members outside of its own arena have called join().
    [[nodiscard]] bool takes(const DeviceBatch& batch) const;
    /// Begins to move `batch`, whose spans must stay valid until the task is done. If refusal() has a reason when the
    /// task is done, the task has moved nothing.
    void begin(const DeviceBatch& batch);
    StepResult step() override;
    /// If `measures` is true, the end events of the next batches also record the time from the first kernel to the
    /// last.
    void measure(bool measures) { measures_ = measures; }
    /// Returns the member that cannot share memory, and the reason. The reason is empty if all members can share
    /// memory, or if no batch was started.
    [[nodiscard]] const IpcConnection::Refusal& refusal() const { return connection_.refusal(); }
    [[nodiscard]] LaunchPhase phase() const;
    /// Returns the event at the end of the last batch's work; null before the first batch.
    [[nodiscard]] const DeviceEventPtr& end() const { return end_; }
    /// Returns the reason why the task cannot continue, or success if nothing has failed.
    [[nodiscard]] const Status& failed() const { return failure_; }

private:
    [[nodiscard]] Status plan();
    [[nodiscard]] std::uint64_t bytes_of(const DeviceBatch& batch) const;
    [[nodiscard]] Result<StepResult> advance();
    [[nodiscard]] Result<StepResult> connect();
    [[nodiscard]] Status submit_round();
    void begin_measuring(CudaStream stream);
    [[nodiscard]] Result<DeviceEventPtr> record_round(bool is_last, CudaStream stream);
    [[nodiscard]] Status combine(std::size_t piece, CudaStream stream);
    [[nodiscard]] Status fill(std::size_t piece, CudaStream stream);
    [[nodiscard]] Result<StepResult> wait_for_device();
    [[nodiscard]] Result<StepResult> meet();
    [[nodiscard]] std::span<const StagedPart> parts_of(std::size_t piece) const;
    [[nodiscard]] bool wait_for_kernels() noexcept;

    enum class State : std::uint8_t { waits_for_inputs, connecting, submitting, on_device, barrier, done };

    const std::shared_ptr<IpcDevice> device_;
    const std::uint32_t member_;
    const std::uint32_t members_;
    const IpcSizes sizes_;
    HostExchange exchange_;
    IpcConnection connection_;
    DeviceBatch batch_;
    ReadyEvents ready_;
    StagingPlan plan_;  // the pieces of an operation that can be divided at any element
    IpcRows rows_;      // the pieces of an operation that moves rows
    std::size_t pieces_ = 0;
    State state_ = State::done;
    std::size_t next_ = 0;      // the piece of this batch that is filled next
    std::uint64_t before_ = 0;  // the number of pieces of all earlier batches
    DeviceEventPtr event_;      // the event at the end of the last round's work; null before the first round
    DeviceEventPtr end_;
    bool measures_ = false;
    TimedBegin begun_;  // where the batch's work begins, if the batch is measured
    Status failure_;
};

}  // namespace rueda::collectives::cuda
