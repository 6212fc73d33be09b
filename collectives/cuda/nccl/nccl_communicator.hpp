// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/nccl/aborts.hpp"
#include "collectives/cuda/nccl/launch_task.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"
#include "collectives/cuda/nccl/offer.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// What identifies this process in an offer, and what its environment allows.
struct ProcessIdentity {
    std::uint64_t host = 0;
    std::uint64_t process = 0;
    bool shares_device = false;  ///< NCCL_MULTI_RANK_GPU_ENABLE=1
};
[[nodiscard]] ProcessIdentity identity_of_this_process();

/// Moves tensors with NCCL. All functions of NCCL are non-blocking: they return at once, and the caller polls.
///
/// Threads: as for DeviceCommunicator.
class NcclDeviceCommunicator final : public DeviceCommunicator {
public:
    /// `nccl` is a failure if NCCL could not be opened. The offer then says why.
    NcclDeviceCommunicator(std::shared_ptr<Device> device, Result<std::shared_ptr<const LoadedNccl>> nccl,
                           ProcessIdentity identity, std::uint32_t member, std::uint32_t members);
    /// Ends the communicator together with the other members, at most for kEndLimit. If they do not come, the
    /// communicator is aborted.
    ~NcclDeviceCommunicator() override;
    NcclDeviceCommunicator(const NcclDeviceCommunicator&) = delete;
    NcclDeviceCommunicator& operator=(const NcclDeviceCommunicator&) = delete;

    /// The other members end their communicators at about the same time, so this is long. It bounds the shutdown of a
    /// job in which a rank dies at the very end.
    static constexpr std::chrono::milliseconds kEndLimit{2000};
    /// An abort takes some milliseconds. Memory that is still in use after this time is left to the process.
    static constexpr std::chrono::milliseconds kAbortLimit{1000};

    Offer offer() override;
    Status connect(std::span<const Offer> offers) override;
    Result<bool> is_connected() override;
    Status check(Operation operation, const Segment& segment) const override;
    Task& start(const DeviceBatch& batch) override;
    void measure(bool measures) override { task_.measure(measures); }
    LaunchPhase launch_phase() const override {
        return task_.waits_for_turn() ? LaunchPhase::waits_for_turn : LaunchPhase::launching;
    }
    DeviceEventPtr end() override { return task_.end(); }
    Status failed() override;
    void abort() noexcept override;

private:
    [[nodiscard]] Participant participant();
    [[nodiscard]] Status begin_to_connect(const NcclUniqueId& id);
    /// Returns whether NCCL works on something, or NCCL's error.
    [[nodiscard]] Result<bool> is_busy();
    [[nodiscard]] bool finalize() noexcept;

    const std::shared_ptr<Device> device_;
    const Result<std::shared_ptr<const LoadedNccl>> nccl_;
    const ProcessIdentity identity_;
    const FailedMember where_;
    NcclCommunicator communicator_ = nullptr;
    bool is_connected_ = false;
    Status failure_;  // the first one
    StartedAbortPtr abort_;
    LaunchTask task_;
};

}  // namespace rueda::collectives::cuda
