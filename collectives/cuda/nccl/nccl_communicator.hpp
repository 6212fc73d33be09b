// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/nccl/aborts.hpp"
#include "collectives/cuda/nccl/launch_task.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"
#include "collectives/cuda/nccl/offer.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// The fields of an offer that describe this process.
struct ProcessIdentity {
    std::uint64_t host = 0;
    std::uint64_t process = 0;
    bool shares_device = false;  ///< NCCL_MULTI_RANK_GPU_ENABLE=1
};
[[nodiscard]] ProcessIdentity identity_of_this_process();

/// Moves tensors with NCCL. All functions of NCCL are non-blocking: they return at once, and the caller polls.
///
/// DeviceCommunicator describes the functions, and which threads may call them.
class NcclDeviceCommunicator {
public:
    /// If NCCL could not be opened, `nccl` is the error, and describe() passes the reason on. `rank` is this rank's
    /// number in the job, for error messages. `id` is an identifier from NCCL for this communicator only. If the first
    /// member has no `id`, describe() gets one from NCCL.
    NcclDeviceCommunicator(std::shared_ptr<Device> device, Result<std::shared_ptr<const LoadedNccl>> nccl,
                           std::uint32_t member, std::uint32_t members, std::int32_t rank,
                           std::optional<NcclUniqueId> id);
    /// Ends the communicator together with the other members. If they do not come within kEndLimit, the communicator is
    /// aborted.
    ~NcclDeviceCommunicator();
    NcclDeviceCommunicator(const NcclDeviceCommunicator&) = delete;
    NcclDeviceCommunicator& operator=(const NcclDeviceCommunicator&) = delete;

    /// How long the destructor waits for the other members. They end their communicators at about the same time, so
    /// this limit is rarely reached. It matters if a rank dies while the job ends.
    static constexpr std::chrono::milliseconds kEndLimit{2000};
    /// How long the destructor waits for an abort, which normally takes some milliseconds. Memory that is still in use
    /// after this limit stays allocated until the process ends.
    static constexpr std::chrono::milliseconds kAbortLimit{1000};

    /// Adds to an offer what the other members need to know about NCCL on this member.
    void describe(Participant& own);
    /// Begins to connect the members. If this function fails, only this member knows of the failure. is_connected()
    /// then returns the failure, and the job must end, because the other members wait.
    void connect(const NcclUniqueId& id, Packing packing);
    [[nodiscard]] Result<bool> is_connected();
    [[nodiscard]] Status check(Operation operation, const Segment& segment) const;
    [[nodiscard]] Task& start(const DeviceBatch& batch);
    void measure(bool measures) { task_.measure(measures); }
    [[nodiscard]] LaunchPhase launch_phase() const {
        return task_.waits_for_turn() ? LaunchPhase::waits_for_turn : LaunchPhase::launching;
    }
    [[nodiscard]] DeviceCall last_call() const { return task_.last_call(); }
    [[nodiscard]] DeviceEventPtr end() { return task_.end(); }
    [[nodiscard]] Status failed();
    /// Drops the task in progress. The communicator starts no other task.
    void abandon() noexcept { task_.abandon(); }
    void abort() noexcept;

private:
    [[nodiscard]] Status begin_to_connect(const NcclUniqueId& id, Packing packing);
    /// Returns whether NCCL is still working on a call. If NCCL has failed, returns its error.
    [[nodiscard]] Result<bool> is_busy();
    [[nodiscard]] bool finalize() noexcept;

    const std::shared_ptr<Device> device_;
    const Result<std::shared_ptr<const LoadedNccl>> nccl_;
    const FailedMember where_;
    /// The identifier that this member offers. Each call of ncclGetUniqueId starts a thread with a socket, which
    /// waits for all members to connect. The members may exchange offers many times. To start only one thread, all
    /// offers of this member contain the same identifier.
    std::optional<NcclUniqueId> id_;
    NcclCommunicator communicator_ = nullptr;
    bool is_connected_ = false;
    Status failure_;  // the first failure
    StartedAbortPtr abort_;
    LaunchTask task_;
};

}  // namespace rueda::collectives::cuda
