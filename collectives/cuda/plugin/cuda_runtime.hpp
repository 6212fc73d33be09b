// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/ipc/ipc_device.hpp"
#include "collectives/cuda/ipc/ipc_task.hpp"
#include "collectives/cuda/memory/program_memory.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"
#include "collectives/cuda/nccl/nccl_communicator.hpp"
#include "collectives/cuda/order/launch_order.hpp"
#include "collectives/cuda/order/nccl_sets.hpp"
#include "collectives/cuda/plugin/set_communicator.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/replicas/device_team.hpp"
#include "collectives/cuda/staged/staging_device.hpp"
#include "ops/cuda/kernel_image.hpp"

namespace rueda::collectives::cuda {

/// Threads: any thread may call any function.
class CudaDeviceRuntime final : public DeviceRuntime {
public:
    struct Parts {
        CudaApi cuda;
        /// Opens NCCL. The runtime calls load_nccl() at most once: in open_nccl(), or later, when it first needs NCCL.
        std::function<Result<LoadedNccl>()> load_nccl;
        std::function<void(const std::string& text)> note{};
        std::function<void(const std::string& text)> warn{};
        ProcessIdentity identity{};
        std::string_view kernels = ops::cuda::kernel_image();            ///< the text of the kernels
        std::size_t piece_bytes = StagedTask::kPieceBytes;               ///< tests set a small size
        IpcSizes ipc_sizes{};                                            ///< tests set small sizes
        std::size_t team_divided_bytes = CudaDeviceTeam::kDividedBytes;  ///< tests set a small size
        std::uint32_t order_interval = SetCommunicator::kOrderInterval;  ///< tests set a small number
    };
    explicit CudaDeviceRuntime(Parts parts) : parts_(std::move(parts)) {}

    Result<DeviceEventPtr> record(DeviceStream stream) override;
    void open_nccl() override { static_cast<void>(nccl()); }
    void prepare_nccl_id() override;
    Result<std::unique_ptr<DeviceCommunicator>> make_communicator(const DeviceSet& set, Communicator& host) override;
    Result<std::shared_ptr<std::byte>> host_memory(std::int32_t device, std::size_t bytes) override;
    Result<DeviceEventPtr> copy(std::int32_t device, std::byte* to, const std::byte* from, std::size_t bytes,
                                const DeviceEventPtr& after) override;
    Result<std::byte*> allocate(std::int32_t device, std::size_t bytes, DevicePath path) override;
    bool deallocate(const void* memory) override { return memory_->give_back(memory); }
    DeviceMemoryPtr memory_of(const std::byte* address) override { return memory_->find(address); }
    Result<std::unique_ptr<PinnedMemory>> pin(std::int32_t device, std::byte* memory, std::size_t bytes) override;
    Result<std::unique_ptr<DeviceTeam>> make_team(DeviceTeamPlan plan) override;

private:
    /// Returns the device, together with the objects that all process sets on this device share.
    [[nodiscard]] Result<std::shared_ptr<StagingDevice>> device(int ordinal);
    /// Returns the object for CUDA IPC that all process sets on the device share.
    [[nodiscard]] std::shared_ptr<IpcDevice> ipc_device(const StagingDevice& device);
    [[nodiscard]] Result<std::shared_ptr<const LoadedNccl>> nccl();
    /// Takes one of the identifiers that prepare_nccl_id() got from NCCL. Returns nothing if there is none left.
    [[nodiscard]] std::optional<NcclUniqueId> take_nccl_id();
    void note(const std::string& text) const;

    const Parts parts_;
    const std::shared_ptr<NcclSets> sets_ = std::make_shared<NcclSets>();
    const std::shared_ptr<LaunchOrder> order_ = std::make_shared<LaunchOrder>();
    const std::shared_ptr<ProgramMemory> memory_ = std::make_shared<ProgramMemory>();
    std::mutex mutex_;  // guards `devices_` and `ipc_devices_`
    std::map<int, std::shared_ptr<StagingDevice>> devices_;
    std::map<int, std::shared_ptr<IpcDevice>> ipc_devices_;
    // Guards only `nccl_`. A thread holds this mutex while it opens NCCL, which takes long, so the mutex guards nothing
    // else.
    std::mutex nccl_mutex_;
    std::optional<Result<std::shared_ptr<const LoadedNccl>>> nccl_;
    std::mutex ids_mutex_;           // guards `ids_`; a thread that holds it calls nothing of NCCL
    std::vector<NcclUniqueId> ids_;  ///< identifiers from prepare_nccl_id() that no communicator has taken yet
};

/// Opens the driver. This is CudaPlugin::open.
[[nodiscard]] Result<std::unique_ptr<DeviceRuntime>> open_cuda_runtime(const DeviceRuntimeOptions& options);

}  // namespace rueda::collectives::cuda
