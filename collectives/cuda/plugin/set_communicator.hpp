// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/cuda/ipc/ipc_task.hpp"
#include "collectives/cuda/nccl/nccl_communicator.hpp"
#include "collectives/cuda/nccl/offer.hpp"
#include "collectives/cuda/order/launch_order.hpp"
#include "collectives/cuda/order/nccl_sets.hpp"
#include "collectives/cuda/order/order_task.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/staged/staged_task.hpp"

namespace rueda::collectives::cuda {

/// Runs the tasks of one batch one after the other: the wait for the batch's place in the order of all process sets,
/// NCCL's task, and that of the tensors that move through the host. If CUDA IPC takes a batch, its task is in NCCL's
/// place. If the members then find that they cannot share memory, the task of the host moves the batch.
class SetTask final : public Task {
public:
    explicit SetTask(OrderTask& order) : order_(order) {}
    /// A task may be null, except for one of them. `has_order`: whether NCCL's task needs a place in the order.
    void begin(bool has_order, Task* nccl, StagedTask* staged) {
        is_ordering_ = has_order && nccl != nullptr;
        nccl_ = nccl;
        ipc_ = nullptr;
        staged_ = staged;
    }
    /// The task of CUDA IPC has begun the batch, and `staged` begins `batch` only if the members cannot share memory.
    void begin(IpcTask& ipc, StagedTask& staged, const DeviceBatch& batch) {
        nccl_ = nullptr;
        ipc_ = &ipc;
        staged_ = &staged;
        batch_ = batch;
    }
    StepResult step() override;
    [[nodiscard]] std::optional<BatchChunks> chunks() const override;
    /// Whether the batch waits for its place in the order.
    [[nodiscard]] bool is_ordering() const { return is_ordering_; }
    /// Whether NCCL's task is not done.
    [[nodiscard]] bool is_at_nccl() const { return nccl_ != nullptr; }
    [[nodiscard]] bool is_at_ipc() const { return ipc_ != nullptr; }

private:
    [[nodiscard]] StepResult step_ipc();

    OrderTask& order_;
    bool is_ordering_ = false;      // whether order_ is not done
    Task* nccl_ = nullptr;          // null when it is done
    IpcTask* ipc_ = nullptr;        // null when it is done
    StagedTask* staged_ = nullptr;  // null when it is done
    DeviceBatch batch_{};           // for `staged_`, if the members cannot share memory
};

/// Moves the tensors of one process set. After the exchange of the offers, all members know whether NCCL connects them.
/// If it does, NCCL gets all tensors that it can reduce. All other tensors move through the host's memory.
///
/// Threads: as for DeviceCommunicator.
class SetCommunicator final : public DeviceCommunicator {
public:
    struct Parts {
        std::shared_ptr<StagingDevice> staging;
        std::shared_ptr<IpcDevice> ipc;
        std::unique_ptr<NcclDeviceCommunicator> nccl;  ///< null if the settings exclude NCCL
        std::shared_ptr<NcclSets> sets;                ///< of this process
        std::shared_ptr<LaunchOrder> order;            ///< of this process
        ProcessIdentity identity{};
        std::function<void(const std::string& text)> note{};
        std::function<void(const std::string& text)> warn{};
        std::size_t piece_bytes = StagedTask::kPieceBytes;
        IpcSizes ipc_sizes{};
    };
    SetCommunicator(Parts parts, DeviceSet set, Communicator& host);
    ~SetCommunicator() override;
    SetCommunicator(const SetCommunicator&) = delete;
    SetCommunicator& operator=(const SetCommunicator&) = delete;

    Offer offer() override;
    Status connect(std::span<const Offer> offers) override;
    Result<bool> is_connected() override;
    Status check(Operation operation, const Segment& segment) const override;
    Task& start(const DeviceBatch& batch) override;
    void measure(bool measures) override {
        if (parts_.nccl != nullptr) {
            parts_.nccl->measure(measures);
        }
    }
    LaunchPhase launch_phase() const override;
    std::int32_t awaited_set() const override { return order_.awaited_set(); }
    DeviceEventPtr end() override;
    Status failed() override;
    void abandon() noexcept override;
    void abort() noexcept override;

private:
    /// The tensors of a batch that take one of the two ways.
    struct SubBatch {
        std::vector<Segment> segments;
        std::vector<DeviceEventPtr> ready;
        std::vector<TensorMemory> memory;
        std::vector<Segment> host_segments;
        std::vector<Location> locations;

        void clear();
        void add(const DeviceBatch& batch, std::size_t tensor);
        [[nodiscard]] DeviceBatch of(const DeviceBatch& batch) const;
    };

    void say(const Decision& decision) const;
    void say_refusal();
    [[nodiscard]] std::int32_t rank_of(std::uint32_t member) const;
    [[nodiscard]] bool begin_order(const DeviceBatch& batch);
    void end_nccl() noexcept;

    Parts parts_;
    const DeviceSet set_;
    Communicator& host_;
    bool uses_nccl_ = false;
    bool has_order_ = false;  // whether the batches have a place in the order of all process sets
    /// Whether the members may be at different batches because a device has something to do: at the first batch,
    /// because NCCL connects, and after a batch that was staged.
    bool may_lag_ = true;
    Status refusal_;
    std::optional<IpcTask> ipc_;     // nothing if the members cannot share memory, as far as their offers tell
    bool has_said_refusal_ = false;  // of CUDA IPC, at the first large batch
    StagedTask staged_;
    OrderTask order_;
    SetTask task_;
    bool nccl_took_part_ = false;    // in the last batch
    bool staged_took_part_ = false;  // in the last batch
    SubBatch for_nccl_;
    SubBatch for_host_;
};

}  // namespace rueda::collectives::cuda
