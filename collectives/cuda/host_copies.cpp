// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/host_copies.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rueda::collectives::cuda {
namespace {

/// The driver gives out pinned memory in pages.
constexpr std::size_t kLeastPinned = 4096;

}  // namespace

Result<std::shared_ptr<std::byte>> HostCopies::memory(std::size_t bytes) {
    // Powers of two fit the next message that is a little larger or smaller.
    const std::size_t size = std::bit_ceil(std::max(bytes, kLeastPinned));
    void* memory = nullptr;
    {
        const std::scoped_lock lock(pool_->mutex);
        std::vector<void*>& free = pool_->free[size];
        if (!free.empty()) {
            memory = free.back();
            free.pop_back();
        }
    }
    if (memory == nullptr) {
        const RelaxedCapture relaxed(device_->api());
        const ContextScope scope(device_->api(), device_->context());
        const CudaResult result =
            scope.error() != kCudaSuccess ? scope.error() : device_->api().host_allocate(&memory, size, kHostPortable);
        if (result != kCudaSuccess) {
            return device_->failure_of("cuMemHostAlloc", result);
        }
    }
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [pool = pool_, size](std::byte* returned) {
        try {
            const std::scoped_lock lock(pool->mutex);
            pool->free[size].push_back(returned);
        } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the list, the memory is not used again
        }
    });
}

/// The caller holds the mutex, and the device's context is current.
Result<CudaStream> HostCopies::stream(bool waits) {
    CudaStream& stream = streams_[waits ? 1 : 0];
    if (stream == nullptr) {
        const CudaResult result = device_->api().stream_create_with_priority(&stream, kStreamNonBlocking, 0);
        if (result != kCudaSuccess) {
            return device_->failure_of("cuStreamCreateWithPriority", result);
        }
    }
    return stream;
}

Result<DeviceEventPtr> HostCopies::copy(std::byte* to, const std::byte* from, std::size_t bytes,
                                        const DeviceEventPtr& after) {
    const std::scoped_lock lock(mutex_);
    const RelaxedCapture relaxed(device_->api());
    const ContextScope scope(device_->api(), device_->context());
    if (scope.error() != kCudaSuccess) {
        return device_->failure_of("cuCtxPushCurrent", scope.error());
    }
    auto queue = stream(after != nullptr);
    RUEDA_RETURN_IF_FAILED(queue.status());
    if (after != nullptr) {
        RUEDA_RETURN_IF_FAILED(after->make_wait({device_->ordinal(), queue.value()}));
    }
    const CudaResult result = device_->api().copy_async(std::bit_cast<std::uintptr_t>(to),
                                                        std::bit_cast<std::uintptr_t>(from), bytes, queue.value());
    if (result != kCudaSuccess) {
        return device_->failure_of("cuMemcpyAsync", result);
    }
    return device_->record(queue.value());
}

}  // namespace rueda::collectives::cuda
