// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// Copies between a device and the host for sends and receives, and pinned memory for them.
///
/// The copies have two streams, which contain nothing else. One has copies that wait for an event of the program. The
/// other one has copies that wait for nothing, so that these never stand behind the program's work.
///
/// Pinned memory is never freed, because the driver may wait for all work of the device then. Memory that was given
/// back is used again, so a process keeps as much as its messages needed at the same time.
///
/// Threads: any thread may call any function.
class HostCopies {
public:
    explicit HostCopies(std::shared_ptr<Device> device) : device_(std::move(device)), pool_(std::make_shared<Pool>()) {}

    /// See DeviceRuntime::host_memory() and DeviceRuntime::copy().
    [[nodiscard]] Result<std::shared_ptr<std::byte>> memory(std::size_t bytes);
    [[nodiscard]] Result<DeviceEventPtr> copy(std::byte* to, const std::byte* from, std::size_t bytes,
                                              const DeviceEventPtr& after);

private:
    struct Pool {
        std::mutex mutex;
        std::map<std::size_t, std::vector<void*>> free;  // by size
    };
    [[nodiscard]] Result<CudaStream> stream(bool waits);

    const std::shared_ptr<Device> device_;
    const std::shared_ptr<Pool> pool_;
    std::mutex mutex_;  // guards the streams: a copy and its events follow each other without another copy between them
    std::array<CudaStream, 2> streams_{};  // without and with waits
};

}  // namespace rueda::collectives::cuda
