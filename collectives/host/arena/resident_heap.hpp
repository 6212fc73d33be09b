// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.hpp"
#include "collectives/host/arena/arena.hpp"

namespace rueda::collectives {

/// Allocates memory in this rank's region of the arena (the host's shared memory). Its tables are private to the
/// process, and other ranks see only offsets. It chooses the smallest free range that is large enough. Blocks of at
/// least kLargeBlock bytes begin on a page, and return their memory to the system when they are freed. Smaller blocks
/// share pages.
///
/// Threads: all functions may be called from any thread (one mutex).
class ResidentHeap {
public:
    static constexpr std::uint64_t kLargeBlock = 64 * 1024;

    /// If `limit_bytes` is 0, the machine's memory is the limit.
    ResidentHeap(std::shared_ptr<Arena> arena, std::uint64_t limit_bytes);

    /// Returns zeroed memory, aligned to a cache line, a page (from kLargeBlock bytes on) or a huge page (from 2 MiB
    /// on). This function first checks the memory limits and allocates the pages. If memory is short, it fails with
    /// ResourceExhausted. If it succeeds, no later access to the block can fault.
    Result<void*> allocate(std::uint64_t bytes);
    /// Frees a block. Fails with InvalidArgument if the memory is not a block of this heap.
    Status deallocate(void* memory);
    /// Keeps a block mapped until the process ends. Call this for a block that cannot be freed; see
    /// Arena::keep_mapped().
    void keep_mapped(void* memory) noexcept;
    /// Call this function after an abort. Other ranks may still write to this rank's memory, so the heap no longer
    /// reuses memory or returns it to the system.
    void quarantine();
    /// Call this function after end(), when no other rank can write to this rank's memory any more. release() then
    /// works also after an abort.
    void end_quarantine();
    /// Call this function at the end of the job. Afterwards allocate() fails with NotInitialized. The function closes
    /// the descriptor of the shared memory, which only the heap uses. Blocks in use stay valid and may be freed later.
    void end();
    /// Call this function after end(). It calls Arena::release() for everything except the blocks in use. When one of
    /// these blocks is freed later, its memory is released too. Between quarantine() and end_quarantine(), this
    /// function does nothing.
    void release();

    /// Whether `memory` must be freed by this heap's deallocate(). Before release(), this is true for every address in
    /// this rank's region. After release(), this is true only for blocks of this heap, because other code may have
    /// mapped memory at the other addresses.
    [[nodiscard]] bool owns(const void* memory) const;
    /// The size of the block that begins at `memory`; 0 if no block of this heap begins there.
    [[nodiscard]] std::uint64_t block_bytes(const void* memory) const;

    [[nodiscard]] std::uint64_t used_bytes() const;

private:
    /// Removes `bytes` bytes from the free ranges, and returns their offset, a multiple of `alignment`.
    Result<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
    void give_back(std::uint64_t offset, std::uint64_t bytes);
    Status populate(std::uint64_t offset, std::uint64_t bytes);
    [[nodiscard]] Arena::Pages pages_of_none_but(std::uint64_t offset, std::uint64_t bytes) const;

    std::shared_ptr<Arena> arena_;
    std::uint64_t limit_bytes_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> free_;    // free ranges, offset → bytes; neighbouring ranges are merged
    std::map<std::uint64_t, std::uint64_t> blocks_;  // offset → bytes
    std::uint64_t used_bytes_ = 0;
    std::uint64_t touched_end_ = 0;  // all pages below this offset were allocated at least once
    bool quarantined_ = false;
    bool ended_ = false;
    bool released_ = false;
};

}  // namespace rueda::collectives
