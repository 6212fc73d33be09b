// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// Memory of the program that was registered with the driver (cuMemHostRegister). Threads: any thread may call any
/// function.
class RegisteredMemory final : public PinnedMemory {
public:
    /// Registers the memory. Returns ResourceExhausted if the driver cannot pin it.
    [[nodiscard]] static Result<std::unique_ptr<PinnedMemory>> pin(std::shared_ptr<Device> device, std::byte* memory,
                                                                   std::size_t bytes);
    /// Only pin() may use this constructor, after it has registered the memory. Other code calls pin().
    RegisteredMemory(std::shared_ptr<Device> device, std::byte* memory) : device_(std::move(device)), memory_(memory) {}

    Status note_work(void* stream) override;
    Result<bool> is_idle() override;
    Status unpin() override;

private:
    const std::shared_ptr<Device> device_;
    std::byte* const memory_;
    std::mutex mutex_;  // guards the next members
    // One event for each piece of work that may still use the memory. The event comes after the work.
    std::vector<DeviceEventPtr> work_;
    // The error of a failed note_work(). It is then unknown when the work ends, so the memory never counts as idle.
    Status unknown_work_;
};

}  // namespace rueda::collectives::cuda
