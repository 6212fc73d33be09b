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

#include "collectives/cuda/nccl/nccl_communicator.hpp"
#include "collectives/cuda/nccl/offer.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/staged/staged_task.hpp"

namespace rueda::collectives::cuda {

/// Runs the tasks of one batch one after the other: NCCL's, and that of the tensors that move through the host.
class SetTask final : public Task {
public:
    /// A task may be null, except for one of them.
    void begin(Task* nccl, Task* staged) {
        nccl_ = nccl;
        staged_ = staged;
    }
    StepResult step() override;
    [[nodiscard]] std::optional<BatchChunks> chunks() const override;
    /// Whether NCCL's task is not done.
    [[nodiscard]] bool is_at_nccl() const { return nccl_ != nullptr; }

private:
    Task* nccl_ = nullptr;    // null when it is done
    Task* staged_ = nullptr;  // null when it is done
};

/// Moves the tensors of one process set. After the exchange of the offers, all members know whether NCCL connects them.
/// If it does, NCCL gets all tensors that it can reduce. All other tensors move through the host's memory.
///
/// Threads: as for DeviceCommunicator.
class SetCommunicator final : public DeviceCommunicator {
public:
    struct Parts {
        std::shared_ptr<StagingDevice> staging;
        std::unique_ptr<NcclDeviceCommunicator> nccl;  ///< null if the settings exclude NCCL
        ProcessIdentity identity{};
        std::function<void(const std::string& text)> note{};
        std::function<void(const std::string& text)> warn{};
        std::size_t piece_bytes = StagedTask::kPieceBytes;
        /// Whether a device serves NCCL in one process set of several ranks only (Device::claim_nccl()). A test that
        /// starts the batches of all sets in one order sets this to false.
        bool claims_nccl = true;
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
    LaunchPhase launch_phase() const override {
        return task_.is_at_nccl() ? parts_.nccl->launch_phase() : staged_.phase();
    }
    DeviceEventPtr end() override;
    Status failed() override;
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
    void end_nccl() noexcept;

    Parts parts_;
    const DeviceSet set_;
    bool uses_nccl_ = false;
    Status refusal_;
    StagedTask staged_;
    SetTask task_;
    bool nccl_took_part_ = false;    // in the last batch
    bool staged_took_part_ = false;  // in the last batch
    SubBatch for_nccl_;
    SubBatch for_host_;
};

}  // namespace rueda::collectives::cuda
