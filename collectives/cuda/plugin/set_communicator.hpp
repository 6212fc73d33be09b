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

/// Moves the tensors of one process set. The members first exchange offers: each tells the others about its device and
/// its NCCL. After that, all members know whether NCCL connects them. If it does, NCCL gets all tensors that it can
/// reduce. All other tensors move through the host's memory.
///
/// Another set without a launch order (NcclSets) can keep this set from using NCCL. The members of this set then
/// exchange their offers again, in the task of every kOrderInterval-th batch, and connect by NCCL as soon as they can.
///
/// Threads: as for DeviceCommunicator.
class SetCommunicator final : public DeviceCommunicator {
public:
    /// At every batch whose number is a multiple of this number, the members of a set without an order ask each other
    /// whether one of them needs an order. Such a question is one small allreduce on the CPU; on average this costs
    /// 1/64 of an allreduce for each batch.
    static constexpr std::uint32_t kOrderInterval = 64;

    /// Returns a member's rank in the job.
    [[nodiscard]] static std::int32_t rank_of(const DeviceSet& set, std::uint32_t member) {
        return member < set.ranks.size() ? set.ranks[member] : static_cast<std::int32_t>(member);
    }

    struct Parts {
        std::shared_ptr<StagingDevice> staging;
        std::shared_ptr<IpcDevice> ipc;
        std::unique_ptr<NcclDeviceCommunicator> nccl;  ///< null if the settings exclude NCCL
        std::shared_ptr<NcclSets> sets;                ///< shared by all communicators of this process
        std::shared_ptr<LaunchOrder> order;            ///< shared by all communicators of this process
        ProcessIdentity identity{};
        std::function<void(const std::string& text)> note{};
        std::function<void(const std::string& text)> warn{};
        std::size_t piece_bytes = StagedTask::kPieceBytes;
        IpcSizes ipc_sizes{};
        std::uint32_t order_interval = kOrderInterval;
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
        measures_ = measures;
    }
    LaunchPhase launch_phase() const override;
    std::int32_t awaited_set() const override { return order_.awaited_set(); }
    DeviceCall last_call() const override;
    DeviceEventPtr end() override;
    Status failed() override;
    void abandon() noexcept override;
    void abort() noexcept override;

private:
    /// The tensors of a batch that take the same path: either by NCCL, or through the host's memory.
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

    /// Runs the tasks of one batch one after the other:
    /// 1. the exchange of new offers, if this batch has one;
    /// 2. the wait for the batch's place in the launch order of all process sets;
    /// 3. NCCL's task, or the task of CUDA IPC if CUDA IPC moves the batch;
    /// 4. the task of the tensors that move through the host. It moves the whole batch if the members find in step 3
    ///    that they cannot share memory.
    class SetTask final : public Task {
    public:
        explicit SetTask(SetCommunicator& owner) : owner_(owner) {}
        StepResult step() override;
        [[nodiscard]] std::optional<BatchChunks> chunks() const override;

    private:
        friend class SetCommunicator;
        [[nodiscard]] StepResult step_ipc();

        SetCommunicator& owner_;
        bool is_joining_ = false;  // whether the exchange of new offers, or the connecting after it, is in progress
        // Whether the task that gives the batch a place in the launch order is still in progress.
        bool is_ordering_ = false;
        Task* nccl_ = nullptr;          // null when it is done
        IpcTask* ipc_ = nullptr;        // null when it is done
        StagedTask* staged_ = nullptr;  // null when it is done
        DeviceBatch batch_{};           // the batch for `staged_`, if the members find that they cannot share memory
    };
    /// The exchange of new offers, in the task of a later batch (see kOrderInterval).
    struct OfferExchange {
        std::vector<Offer> own{};
        std::vector<Offer> all{};
        Segment segment{};
        std::vector<Location> locations{};
        std::vector<std::int64_t> rows{};
        Task* task = nullptr;  // null when it is done
    };

    void say(const Decision& decision) const;
    void say_nccl(const Decision& decision) const;
    void say_refusal();
    [[nodiscard]] bool is_time_for_offers(const DeviceBatch& batch);
    void begin_offers(const DeviceBatch& batch);
    [[nodiscard]] StepResult step_offers(StepWork& work);
    void start_parts(const DeviceBatch& batch);
    [[nodiscard]] bool begin_order(const DeviceBatch& batch);
    void end_nccl() noexcept;

    Parts parts_;
    const DeviceSet set_;
    Communicator& host_;
    bool uses_nccl_ = false;
    bool may_change_ = false;    // Decision::may_change of the last decision
    std::uint32_t batches_ = 0;  // the number of batches since the last decision
    OfferExchange offers_;
    DeviceBatch joining_;  // the batch in whose task the offers are exchanged again
    /// Whether a wait for a device may have delayed a member, so that the members are at different batches. This is
    /// possible at the first batch, because NCCL connects, and after a batch that was staged (moved through the host's
    /// memory).
    bool may_lag_ = true;
    Status refusal_;
    std::optional<IpcTask> ipc_;     // empty if the members' offers show that the members cannot share memory
    bool has_said_refusal_ = false;  // whether say_refusal() has written its line to the log
    StagedTask staged_;
    OrderTask order_;
    SetTask task_;
    bool nccl_took_part_ = false;    // whether NCCL took part in the last batch
    bool staged_took_part_ = false;  // whether `staged_` took part in the last batch
    bool ipc_took_part_ = false;     // whether CUDA IPC moved the last batch
    bool measures_ = false;          // see measure()
    SubBatch for_nccl_;
    SubBatch for_host_;
};

}  // namespace rueda::collectives::cuda
