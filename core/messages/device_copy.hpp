// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "core/pending/tensor_table.hpp"

namespace rueda::core {

/// The copy between a tensor in device memory and memory of the host. A send or a receive of such a tensor works on the
/// memory of the host.
///
/// A copy to the host is put into a stream only when the tensor is ready, so no message waits in the stream behind
/// another message. A copy to the device is put into a stream at once. If its tensor is not ready, this copy waits in
/// the stream, and delays later copies to other tensors that are not ready. The end of a copy wakes no thread, so the
/// thread that drives progress polls.
///
/// Threads: make() runs in the caller's thread. Later, only the thread that drives progress uses the object.
class DeviceCopy {
public:
    enum class Direction : std::uint8_t { to_host, to_device };

    /// Allocates memory of the host for the tensor.
    [[nodiscard]] static Result<std::shared_ptr<DeviceCopy>> make(Direction direction,
                                                                  std::shared_ptr<const DeviceUse> use,
                                                                  std::byte* tensor, std::uint64_t bytes);
    DeviceCopy(Direction direction, std::shared_ptr<const DeviceUse> use, std::byte* tensor, std::uint64_t bytes,
               std::shared_ptr<std::byte> memory);
    ~DeviceCopy();
    DeviceCopy(const DeviceCopy&) = delete;
    DeviceCopy& operator=(const DeviceCopy&) = delete;

    /// The number of the device.
    [[nodiscard]] int device() const { return use_->stream.device; }
    /// The memory of the host.
    [[nodiscard]] std::byte* memory() const { return memory_->memory.get(); }
    /// Continues the copy without waiting, and returns whether the copy is done. Before a copy to the device, the
    /// memory of the host must contain the message.
    [[nodiscard]] Result<bool> step();
    /// The device event that follows the copy in its stream. Null until the copy was put into a stream.
    [[nodiscard]] const collectives::DeviceEventPtr& end() const { return end_; }
    /// Waits until the device no longer uses the tensor and the memory of the host, but not beyond the limit. Call this
    /// before an operation ends whose copy is not done.
    void settle(std::chrono::steady_clock::time_point limit) noexcept;

private:
    /// The memory of the host. It can be put into a list without an allocation, because it has a pointer to the next
    /// element.
    struct Kept {
        std::shared_ptr<std::byte> memory;
        Kept* next = nullptr;
    };
    static void keep_for_ever(Kept* kept) noexcept;

    [[nodiscard]] bool is_in_use() noexcept;

    const Direction direction_;
    const std::shared_ptr<const DeviceUse> use_;
    std::byte* const tensor_;
    const std::uint64_t bytes_;
    std::unique_ptr<Kept> memory_;
    collectives::DeviceEventPtr end_;
};

}  // namespace rueda::core
