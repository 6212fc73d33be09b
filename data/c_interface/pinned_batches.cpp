// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Pinned memory for the batches of a pipeline.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "rueda/data.h"
#include "rueda/data/pinned.hpp"
#include "rueda/rueda.hpp"

namespace rueda::data {

namespace {

/// How long the destructor waits for the GPU, for all blocks together. Nothing wakes the waiting thread when the GPU
/// has done its work, so the thread asks again after each pause.
constexpr auto kPinnedBlocksPatience = std::chrono::seconds(5);
constexpr auto kPinnedBlocksPause = std::chrono::microseconds(50);

/// The pinned arrays of a pipeline's batches. An array's memory is a block. When an array is freed, this object does
/// not wait for the GPU, but notes the work that the GPU still has to do with the block. When this work is done,
/// another array can use the block. Blocks are unpinned when this object is destroyed. Threads: any thread may call any
/// function.
class PinnedBlocks {
public:
    explicit PinnedBlocks(int device) : device_(device) {}
    PinnedBlocks(const PinnedBlocks&) = delete;
    PinnedBlocks& operator=(const PinnedBlocks&) = delete;
    /// Waits for the GPU, but not longer than kPinnedBlocksPatience. Memory that the GPU may still use after this wait
    /// stays mapped and registered until the process ends.
    ~PinnedBlocks() {
        const auto deadline = std::chrono::steady_clock::now() + kPinnedBlocksPatience;
        for (const auto& [memory, block] : blocks_) {
            if (block.state == State::free && wait_for(block.pinned, deadline) &&
                rueda_data_unpin(block.pinned) == RUEDA_OK) {
                ::munmap(memory, block.bytes);
            }
        }
    }

    void* allocate(std::size_t bytes) {
        if (bytes > std::numeric_limits<std::size_t>::max() / 4) {
            throw std::bad_alloc();  // no system has so much memory, and std::bit_ceil() must not overflow
        }
        // The sizes are powers of two, so that other arrays can use the block of a freed array. An array that grows
        // leaves its smaller blocks behind. Together they are smaller than its last block.
        const std::size_t size = std::bit_ceil(std::max(bytes, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))));
        if (void* const memory = take_free(size)) {
            return memory;
        }
        void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            throw ResourceExhausted(fmt::format("pipeline: mapping {} bytes of memory for a batch failed: {}", size,
                                                std::generic_category().message(errno)));
        }
        rueda_data_pinned* pinned = nullptr;
        if (const int status = rueda_data_pin(memory, size, device_, &pinned); status != RUEDA_OK) {
            ::munmap(memory, size);
            detail::check(status);
        }
        const std::lock_guard lock(mutex_);
        blocks_.emplace(memory, Block{pinned, size});
        return memory;
    }
    void free(void* memory) noexcept {
        // The program may have started a copy to the GPU right before it freed the array. So the GPU's work is noted
        // here.
        const bool is_noted = rueda_data_pinned_note_work(pinned_at(memory), nullptr) == RUEDA_OK;
        const std::lock_guard lock(mutex_);
        // If the work could not be noted, the GPU may use the memory at any time, so the block is never used again.
        blocks_.at(memory).state = is_noted ? State::free : State::lost;
    }
    void note_work(void* memory) { detail::check(rueda_data_pinned_note_work(pinned_at(memory), nullptr)); }
    [[nodiscard]] bool is_idle(void* memory) { return is_idle(pinned_at(memory)); }

private:
    enum class State : std::uint8_t { used, free, lost };
    struct Block {
        rueda_data_pinned* pinned = nullptr;
        std::size_t bytes = 0;
        State state = State::used;
    };

    [[nodiscard]] static bool is_idle(rueda_data_pinned* pinned) {
        std::int32_t idle = 0;
        detail::check(rueda_data_pinned_is_idle(pinned, &idle));
        return idle != 0;
    }
    [[nodiscard]] static bool wait_for(rueda_data_pinned* pinned, std::chrono::steady_clock::time_point deadline) {
        std::int32_t idle = 0;
        while (rueda_data_pinned_is_idle(pinned, &idle) == RUEDA_OK) {
            if (idle != 0 || std::chrono::steady_clock::now() >= deadline) {
                return idle != 0;
            }
            std::this_thread::sleep_for(kPinnedBlocksPause);
        }
        return false;
    }
    /// Returns a block of this size that the GPU does not use, or null.
    [[nodiscard]] void* take_free(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        for (auto& [memory, block] : blocks_) {
            if (block.state == State::free && block.bytes == bytes && is_idle(block.pinned)) {
                block.state = State::used;
                return memory;
            }
        }
        return nullptr;
    }
    [[nodiscard]] rueda_data_pinned* pinned_at(void* memory) {
        const std::lock_guard lock(mutex_);
        return blocks_.at(memory).pinned;
    }

    const int device_;
    std::mutex mutex_;  ///< guards blocks_; the driver's locks may be taken while it is held
    std::unordered_map<void*, Block> blocks_;
};

}  // namespace

std::shared_ptr<const BatchMemory> pinned_memory(int device) {
    const auto blocks = std::make_shared<PinnedBlocks>(device);
    blocks->free(blocks->allocate(1));  // a trial: without a GPU, this allocation fails, and so does pinned_memory()
    return std::make_shared<const BatchMemory>(
        BatchMemory{[blocks](std::size_t bytes) { return blocks->allocate(bytes); },
                    [blocks](void* memory) noexcept { blocks->free(memory); },
                    [blocks](void* memory) { blocks->note_work(memory); },
                    [blocks](void* memory) { return blocks->is_idle(memory); }});
}

}  // namespace rueda::data
