// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/memory/program_memory.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/staged/staging_device.hpp"

namespace rueda::collectives::cuda {

/// A part of a tensor, in bytes.
struct TeamPart {
    std::size_t begin = 0;
    std::size_t bytes = 0;
};
/// Returns the part of a tensor that a home (a device with replicas) adds up and copies. Small tensors belong to the
/// first home as a whole. Large tensors are divided evenly among all homes, at multiples of 256 bytes.
[[nodiscard]] TeamPart team_part(std::size_t tensor_bytes, std::size_t home, std::size_t homes,
                                 std::size_t divided_bytes);

/// See DeviceTeam. A *home* is a device with at least one replica, together with the team's stream on this device. The
/// stream is StagingDevice::Stream::replicas, so all teams of a process share it.
///
/// The driver copies the parts of other devices' tensors into scratch memory, and a kernel adds them up there. Kernels
/// do not read the memory of other devices, because this does not always work. If a program allocates memory with the
/// driver's virtual memory interface, other devices can copy this memory, but they cannot read it without further
/// calls.
class CudaDeviceTeam final : public DeviceTeam {
public:
    /// Tensors of at least this size are divided among the devices. docs/design/0027-replicas.md has the reason.
    static constexpr std::size_t kDividedBytes = std::size_t{8} << 20;

    /// `devices` has the device of each replica. All these devices must have kernels. `note` is called with lines for
    /// the log.
    [[nodiscard]] static Result<std::unique_ptr<DeviceTeam>> make(
        DeviceTeamPlan plan, std::span<const std::shared_ptr<StagingDevice>> devices,
        std::shared_ptr<ProgramMemory> memory, const std::function<void(const std::string& text)>& note,
        std::size_t divided_bytes);
    ~CudaDeviceTeam() override;
    CudaDeviceTeam(const CudaDeviceTeam&) = delete;
    CudaDeviceTeam& operator=(const CudaDeviceTeam&) = delete;

    DeviceStream stream() const override { return homes_.front().team_stream(); }
    Result<bool> ready(std::size_t replica, std::size_t tensor) override;
    Status follow() override;
    Status distribute(std::size_t tensor) override;
    Status join() override;

private:
    struct Home {
        std::shared_ptr<Device> device;
        CudaStream stream = nullptr;
        std::vector<std::size_t> replicas{};  ///< the replicas on this device, in ascending order
        std::byte* scratch = nullptr;         ///< scratch memory with a slot for each replica on another device, and
                                              ///< one for the sum
        std::size_t slot_bytes = 0;
        [[nodiscard]] DeviceStream team_stream() const { return {device->ordinal(), stream}; }
        [[nodiscard]] std::size_t first() const { return replicas.front(); }
    };

    CudaDeviceTeam(DeviceTeamPlan plan, std::shared_ptr<ProgramMemory> memory, std::size_t divided_bytes);
    [[nodiscard]] Status add_homes(std::span<const std::shared_ptr<StagingDevice>> devices);
    [[nodiscard]] Status enable_peer_access(const std::function<void(const std::string& text)>& note);
    [[nodiscard]] Status allocate_scratch();

    [[nodiscard]] TeamPart part(const TeamTensor& tensor, std::size_t home) const {
        return team_part(tensor.bytes(), home, homes_.size(), divided_bytes_);
    }
    [[nodiscard]] Status sum(const TeamTensor& tensor, std::span<const DeviceEventPtr> ready);
    [[nodiscard]] Status sum_part(const TeamTensor& tensor, std::size_t home, TeamPart part);
    [[nodiscard]] Status copy(const Home& on, std::byte* to, const Home& to_home, const std::byte* from,
                              const Home& from_home, std::size_t bytes);
    [[nodiscard]] Status copy_parts_to_homes(const TeamTensor& tensor);
    [[nodiscard]] Status exchange_parts(const TeamTensor& tensor);
    [[nodiscard]] Status copy_within_homes(const TeamTensor& tensor);
    [[nodiscard]] Status first_waits_for_others();
    [[nodiscard]] Status others_wait_for_first();

    const DeviceTeamPlan plan_;
    const std::shared_ptr<ProgramMemory> memory_;
    const std::size_t divided_bytes_;
    std::vector<Home> homes_;           // the devices with replicas; the first one has replica 0
    std::vector<std::size_t> home_of_;  // indexed by replica: the index of the replica's device in `homes_`

    /// Guards `ready_`. A thread also holds this mutex while it puts work into the streams. No other thread's work may
    /// come between the copies into the scratch memory, the kernel, and the copy of the kernel's result. While a thread
    /// holds this mutex, it takes only the locks of the driver and of Device.
    std::mutex mutex_;
    std::vector<std::vector<DeviceEventPtr>> ready_;  // [tensor][replica]; null if the replica is not ready
};

}  // namespace rueda::collectives::cuda
