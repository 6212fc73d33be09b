// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// Pinned memory of the host. The device can copy from and to it without making the host wait.
struct PinnedBlock {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
};

/// What all copies between a device and the host share: streams, and a pool of pinned memory. Process sets that stage
/// tensors use it, and so do sends and receives.
///
/// The copies do not use Device::stream(), because NCCL puts work into that stream from a thread of its own, and NCCL's
/// kernels wait for other ranks. The copies in the streams `to_host` and `to_device` wait for nothing but earlier
/// copies. With a stream for each direction, a copy to the host and one to the device run at the same time. The stream
/// `after_events` has copies that wait for the program's work, so that they do not hold up the other copies. The stream
/// `replicas` has the work of teams of replicas (DeviceTeam), which also waits for the program's work.
///
/// Pinned memory is never freed, because the driver may wait for all work of the device when memory is freed. A block
/// that is given back is used again. The sizes of blocks are powers of two. If operations run one after the other and
/// each needs one block, the whole pool is smaller than four times the largest operation, whatever sizes the operations
/// have.
///
/// Threads: any thread may call any function.
class StagingDevice {
public:
    enum class Stream : std::uint8_t { to_host, to_device, after_events, replicas };

    explicit StagingDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    [[nodiscard]] Device& device() const { return *device_; }
    [[nodiscard]] std::shared_ptr<Device> shared_device() const { return device_; }
    [[nodiscard]] Result<CudaStream> stream(Stream which);

    /// Returns a block of at least `bytes` bytes, which begins at a page.
    [[nodiscard]] Result<PinnedBlock> take(std::size_t bytes);
    /// Call this when the device has done all copies from and to the block.
    void give_back(PinnedBlock block) noexcept;
    /// The size of a new block for this many bytes.
    [[nodiscard]] static std::size_t size_of_block(std::size_t bytes);

    /// See DeviceRuntime::copy().
    [[nodiscard]] Result<DeviceEventPtr> copy(std::byte* to, const std::byte* from, std::size_t bytes,
                                              const DeviceEventPtr& after);

private:
    [[nodiscard]] bool is_in_block(const std::byte* address);

    const std::shared_ptr<Device> device_;
    std::mutex order_;  // copy() holds this lock while it puts a copy and its waits into a stream, so that no other
                        // copy comes between them
    std::mutex mutex_;  // guards the next three members
    std::array<CudaStream, 4> streams_{};
    std::map<std::size_t, std::vector<std::byte*>> free_;  // by size
    std::map<const std::byte*, std::size_t> blocks_;       // the sizes of all blocks, by address
};

}  // namespace rueda::collectives::cuda
