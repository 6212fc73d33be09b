// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// The memory of devices that programs have allocated through Rueda.
///
/// A block has several owners: the program, the operations that use it, and the communicators that have registered it.
/// When the last of them lets go of the block, the block is *unused*. The last owner may be an operation that was
/// aborted while the device worked on it. An unused block is therefore freed only when the device has done all work
/// that was in Rueda's streams when the block became unused.
///
/// The driver may let a thread wait for the device when it frees memory. The thread that drives progress must not wait,
/// because it notices the death of other ranks. So only calls of the program free memory: allocate(), give_back() and
/// free_unused().
///
/// Threads: any thread may call any function, except where a function says otherwise.
class ProgramMemory : public std::enable_shared_from_this<ProgramMemory> {
public:
    /// Allocates at least one byte. NCCL allocates the memory. If `nccl` is null, or if NCCL cannot allocate memory,
    /// the driver allocates it. Threads: any except the thread that drives progress.
    [[nodiscard]] Result<std::byte*> allocate(const std::shared_ptr<Device>& device, std::size_t bytes,
                                              std::shared_ptr<const LoadedNccl> nccl);
    /// Takes back a block that allocate() returned. Returns false if no block of the program begins at `memory`.
    /// Threads: as for allocate().
    [[nodiscard]] bool give_back(const void* memory);
    /// Returns the block that contains `address`; null if there is none.
    [[nodiscard]] DeviceMemoryPtr find(const std::byte* address);
    /// Frees the unused blocks that no work of the device can use any more. Threads: as for allocate().
    void free_unused();

private:
    struct Block : DeviceMemory {
        std::shared_ptr<Device> owner{};
        std::shared_ptr<const LoadedNccl> nccl{};  ///< null if the driver allocated the memory
        bool is_recorded = false;                  ///< whether `after` is complete
        std::vector<DeviceEventPtr> after{};       ///< the memory may be freed after these events
    };
    using BlockPtr = std::unique_ptr<Block>;

    [[nodiscard]] static Status allocate_block(Block& block, std::size_t bytes);
    static void free_block(const Block& block) noexcept;
    void note_unused(BlockPtr block) noexcept;
    [[nodiscard]] bool can_free(Block& block) const;

    std::mutex mutex_;  // guards the next two members
    std::map<const std::byte*, DeviceMemoryPtr> blocks_;
    std::vector<BlockPtr> unused_;
    // The numbers of blocks in `blocks_` and in `unused_`. The accesses are relaxed. If free_unused() misses a change
    // of `unused_count_`, the next call frees the block. find() looks for an address that allocate() has returned.
    // allocate() counts the block before it returns, so find() sees a `block_count_` that includes this block.
    std::atomic<std::size_t> block_count_{0};
    std::atomic<std::size_t> unused_count_{0};
};

}  // namespace rueda::collectives::cuda
