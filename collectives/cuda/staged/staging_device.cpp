// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/staged/staging_device.hpp"

#include <algorithm>
#include <bit>

namespace rueda::collectives::cuda {
namespace {

/// Blocks up to kDoublingLimit have sizes that are powers of two, larger ones are multiples of kDoublingLimit. So
/// tensors of similar sizes use the same blocks.
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;
constexpr std::size_t kDoublingLimit = std::size_t{4} << 20;

std::size_t size_of_block(std::size_t bytes) {
    if (bytes <= kDoublingLimit) {
        return std::bit_ceil(std::max(bytes, kSmallestBlock));
    }
    return (bytes + kDoublingLimit - 1) / kDoublingLimit * kDoublingLimit;
}

}  // namespace

Result<CudaStream> StagingDevice::stream(Direction direction) {
    const std::scoped_lock lock(mutex_);
    CudaStream& stream = streams_.at(static_cast<std::size_t>(direction));
    if (stream == nullptr) {
        int least = 0;
        int greatest = 0;
        CudaResult result = device_->api().context_get_stream_priority_range(&least, &greatest);
        if (result == kCudaSuccess) {
            result = device_->api().stream_create_with_priority(&stream, kStreamNonBlocking, greatest);
        }
        if (result != kCudaSuccess) {
            return device_->failure_of("cuStreamCreateWithPriority", result);
        }
    }
    return stream;
}

Result<PinnedBlock> StagingDevice::take(std::size_t bytes) {
    const std::size_t wanted = size_of_block(bytes);
    {
        const std::scoped_lock lock(mutex_);
        auto best = free_.end();
        for (auto block = free_.begin(); block != free_.end(); ++block) {
            if (block->bytes >= wanted && (best == free_.end() || block->bytes < best->bytes)) {
                best = block;
            }
        }
        // A small piece does not take a block that a large operation left behind and may need again.
        if (best != free_.end() && best->bytes <= 2 * wanted) {
            const PinnedBlock block = *best;
            *best = free_.back();
            free_.pop_back();
            return block;
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
    return PinnedBlock{static_cast<std::byte*>(memory), wanted};
}

void StagingDevice::give_back(PinnedBlock block) noexcept {
    try {
        const std::scoped_lock lock(mutex_);
        free_.push_back(block);
    } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the list, the block is not used again
    }
}

}  // namespace rueda::collectives::cuda
