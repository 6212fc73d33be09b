// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"

namespace rueda::collectives::cuda {

/// Pinned memory of the host, which the device can copy from and to without waits of the host.
struct PinnedBlock {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
};

/// What all process sets that stage tensors of one device share: a stream for each direction, and pinned memory.
///
/// The streams are not Device::stream(). NCCL puts work into that one from a thread of its own, and its kernels wait
/// for other ranks. The copies here wait for nothing but earlier copies. With a stream for each direction, a copy to
/// the host and one to the device run at the same time.
///
/// Pinned memory is never freed, because the driver may wait for all work of the device when memory is freed. A block
/// that is given back is used again. The size of the pool is therefore the largest size that was in use at one time.
///
/// Threads: any thread may call any function.
class StagingDevice {
public:
    enum class Direction : std::uint8_t { to_host, to_device };

    explicit StagingDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    [[nodiscard]] Device& device() const { return *device_; }
    [[nodiscard]] std::shared_ptr<Device> shared_device() const { return device_; }
    /// Returns the stream for copies of this direction. The device's context must be current.
    [[nodiscard]] Result<CudaStream> stream(Direction direction);
    /// Returns a block of at least `bytes` bytes, which begins at a cache line.
    [[nodiscard]] Result<PinnedBlock> take(std::size_t bytes);
    /// Call this when the device has done all copies from and to the block.
    void give_back(PinnedBlock block) noexcept;

private:
    const std::shared_ptr<Device> device_;
    std::mutex mutex_;  // guards the next two
    std::array<CudaStream, 2> streams_{};
    std::vector<PinnedBlock> free_;
};

}  // namespace rueda::collectives::cuda
