// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/memory/program_memory.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

namespace rueda::collectives::cuda {
namespace {

using namespace std::chrono_literals;

/// How long give_back() waits for the device. This is enough for an idle device, which reaches an event in an empty
/// stream after some microseconds. It is not enough for a device that is working.
constexpr auto kFreePatience = 1ms;

}  // namespace

Status ProgramMemory::allocate_block(Block& block, std::size_t bytes) {
    const Device& device = *block.owner;
    const RelaxedCapture relaxed(device.api());
    const ContextScope scope(device.api(), device.context());
    if (scope.error() != kCudaSuccess) {
        return device.failure_of("cuCtxPushCurrent", scope.error());
    }
    block.bytes = std::max<std::size_t>(bytes, 1);
    block.device = device.ordinal();
    void* memory = nullptr;
    if (block.nccl != nullptr && block.nccl->api.has_memory_functions() &&
        block.nccl->api.allocate_memory(&memory, block.bytes) == kNcclSuccess) {
        block.is_from_nccl = true;
        block.begin = static_cast<std::byte*>(memory);
        return {};
    }
    block.nccl = nullptr;
    DeviceAddress address = 0;
    const CudaResult result = device.api().memory_allocate(&address, block.bytes);
    if (result != kCudaSuccess) {
        const Status reason = device.failure_of("cuMemAlloc", result);
        return failure(reason.code(), "{} bytes of memory of GPU {} could not be allocated: {}", bytes,
                       device.ordinal(), reason.message());
    }
    block.begin = std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(address));
    return {};
}

Result<std::byte*> ProgramMemory::allocate(const std::shared_ptr<Device>& device, std::size_t bytes,
                                           std::shared_ptr<const LoadedNccl> nccl) {
    free_unused();
    auto block = std::make_unique<Block>();
    block->owner = device;
    block->nccl = std::move(nccl);
    RUEDA_RETURN_IF_FAILED(allocate_block(*block, bytes));
    std::byte* const begin = block->begin;
    const DeviceMemoryPtr owned(block.release(), [self = shared_from_this()](const Block* unused) {
        self->note_unused(BlockPtr(const_cast<Block*>(unused)));  // removing const is correct: the block was created as
                                                                  // a non-const object, above
    });
    const std::scoped_lock lock(mutex_);
    blocks_.emplace(begin, owned);
    block_count_.store(blocks_.size(), std::memory_order_relaxed);
    return begin;
}

bool ProgramMemory::give_back(const void* memory) {
    // The block is declared outside of the scope of the lock. Its destructor calls note_unused(), which takes the same
    // lock.
    DeviceMemoryPtr block;
    {
        const std::scoped_lock lock(mutex_);
        const auto found = blocks_.find(static_cast<const std::byte*>(memory));
        if (found == blocks_.end()) {
            return false;
        }
        block = std::move(found->second);
        blocks_.erase(found);
        block_count_.store(blocks_.size(), std::memory_order_relaxed);
    }
    block->is_given_back.store(true, std::memory_order_relaxed);
    block.reset();
    // Nothing wakes a thread when the device reaches an event, so this thread asks the driver again and again.
    const auto limit = std::chrono::steady_clock::now() + kFreePatience;
    for (free_unused(); unused_count_.load(std::memory_order_relaxed) != 0; free_unused()) {
        if (std::chrono::steady_clock::now() >= limit) {
            break;
        }
        std::this_thread::yield();
    }
    return true;
}

DeviceMemoryPtr ProgramMemory::find(const std::byte* address) {
    if (block_count_.load(std::memory_order_relaxed) == 0) {
        return nullptr;
    }
    const std::scoped_lock lock(mutex_);
    const auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) {
        return nullptr;
    }
    const DeviceMemoryPtr& block = std::prev(next)->second;
    return address < block->begin + block->bytes ? block : nullptr;
}

void ProgramMemory::note_unused(BlockPtr block) noexcept {
    try {
        const std::scoped_lock lock(mutex_);
        unused_.push_back(std::move(block));
        unused_count_.store(unused_.size(), std::memory_order_relaxed);
    } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the list, the block is never freed
    }
}

/// Whether the device has done all work that may use the block. After an error of the device, this function always
/// returns false.
bool ProgramMemory::can_free(Block& block) const {
    if (!block.is_recorded) {
        const auto recorded = block.owner->record_all(this, block.after);
        block.is_recorded = recorded.is_ok() && recorded.value();
    }
    return block.is_recorded && std::all_of(block.after.begin(), block.after.end(), [](const DeviceEventPtr& event) {
               const auto done = event->is_done();
               return done.is_ok() && done.value();
           });
}

void ProgramMemory::free_block(const Block& block) noexcept {
    const Device& device = *block.owner;
    const RelaxedCapture relaxed(device.api());
    const ContextScope scope(device.api(), device.context());
    if (scope.error() != kCudaSuccess) {
        return;  // the memory cannot be freed, because the process is ending or the device has failed
    }
    if (block.nccl != nullptr) {
        static_cast<void>(block.nccl->api.free_memory(block.begin));
    } else {
        static_cast<void>(device.api().memory_free(std::bit_cast<std::uintptr_t>(block.begin)));
    }
}

void ProgramMemory::free_unused() {
    if (unused_count_.load(std::memory_order_relaxed) == 0) {
        return;
    }
    std::vector<BlockPtr> ready;
    {
        const std::scoped_lock lock(mutex_);
        const auto first =
            std::partition(unused_.begin(), unused_.end(), [this](const BlockPtr& block) { return !can_free(*block); });
        std::move(first, unused_.end(), std::back_inserter(ready));
        unused_.erase(first, unused_.end());
        unused_count_.store(unused_.size(), std::memory_order_relaxed);
    }
    for (const BlockPtr& block : ready) {
        free_block(*block);
    }
}

}  // namespace rueda::collectives::cuda
