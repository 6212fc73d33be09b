// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/staged/staging_device.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace rueda::collectives::cuda {
namespace {

/// The driver gives out pinned memory in pages.
constexpr std::size_t kSmallestBlock = 4096;

}  // namespace

std::size_t StagingDevice::size_of_block(std::size_t bytes) { return std::bit_ceil(std::max(bytes, kSmallestBlock)); }

Result<CudaStream> StagingDevice::stream(Stream which) {
    const std::scoped_lock lock(mutex_);
    CudaStream& stream = streams_.at(static_cast<std::size_t>(which));
    if (stream == nullptr) {
        auto made = device_->make_stream();
        RUEDA_RETURN_IF_FAILED(made.status());
        stream = made.value();
    }
    return stream;
}

Result<PinnedBlock> StagingDevice::take(std::size_t bytes) {
    const std::size_t wanted = size_of_block(bytes);
    {
        const std::scoped_lock lock(mutex_);
        // A small operation does not take a large block that a large operation has given back, because a large
        // operation may need this block again.
        for (const std::size_t size : {wanted, 2 * wanted}) {
            if (const auto free = free_.find(size); free != free_.end() && !free->second.empty()) {
                const PinnedBlock block{free->second.back(), size};
                free->second.pop_back();
                return block;
            }
        }
    }
    const RelaxedCapture relaxed(device_->api());
    const ContextScope scope(device_->api(), device_->context());
    void* memory = nullptr;
    const CudaResult result =
        scope.error() != kCudaSuccess ? scope.error() : device_->api().host_allocate(&memory, wanted, kHostPortable);
    if (result != kCudaSuccess) {
        const Status reason = device_->failure_of("cuMemHostAlloc", result);
        return failure(reason.code(),
                       "{} bytes of pinned memory, through which tensors of GPU {} move, could not be allocated: {}; "
                       "leave more of the host's memory free, or raise the limit of locked memory (ulimit -l)",
                       wanted, device_->ordinal(), reason.message());
    }
    const PinnedBlock block{static_cast<std::byte*>(memory), wanted};
    const std::scoped_lock lock(mutex_);
    blocks_.emplace(block.memory, block.bytes);
    return block;
}

void StagingDevice::give_back(PinnedBlock block) noexcept {
    try {
        const std::scoped_lock lock(mutex_);
        free_[block.bytes].push_back(block.memory);
    } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the list, the block is not used again
    }
}

bool StagingDevice::is_in_block(const std::byte* address) {
    const std::scoped_lock lock(mutex_);
    const auto next = blocks_.upper_bound(address);
    return next != blocks_.begin() && address < std::prev(next)->first + std::prev(next)->second;
}

Result<DeviceEventPtr> StagingDevice::copy(std::byte* to, const std::byte* from, std::size_t bytes,
                                           const DeviceEventPtr& after) {
    const std::scoped_lock lock(order_);
    const RelaxedCapture relaxed(device_->api());
    const ContextScope scope(device_->api(), device_->context());
    if (scope.error() != kCudaSuccess) {
        return device_->failure_of("cuCtxPushCurrent", scope.error());
    }
    const Stream direction = is_in_block(to) ? Stream::to_host : Stream::to_device;
    auto queue = stream(after != nullptr ? Stream::after_events : direction);
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
