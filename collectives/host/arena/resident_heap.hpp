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

/// Allocates memory in this rank's resident region of the arena. Its tables are private to the process; other ranks see
/// only offsets. It chooses the smallest free range that fits. Blocks of at least kLargeBlock bytes begin on a page and
/// return their memory to the system when they are freed; smaller blocks share pages.
///
/// Threads: all functions may be called from any thread (one mutex).
class ResidentHeap {
public:
    static constexpr std::uint64_t kLargeBlock = 64 * 1024;

    /// If `limit_bytes` is 0, the machine's memory is the limit.
    ResidentHeap(std::shared_ptr<Arena> arena, std::uint64_t limit_bytes);

    /// Returns zeroed memory, aligned to a cache line (a large block to a page, from 2 MiB on to a huge page). Before
    /// it returns, the function checks the memory limits and allocates the pages. So a shortage of memory is reported
    /// here as ResourceExhausted, and does not become a fault later.
    Result<void*> allocate(std::uint64_t bytes);
    /// Frees a block. Fails with InvalidArgument if the memory is not a block of this heap.
    Status deallocate(void* memory);
    /// Call this after an abort. Other ranks may still write to this memory, so the heap no longer reuses memory or
    /// returns it to the system.
    void quarantine();
    /// Call this at the end of the job. Afterwards allocate() fails with NotInitialized. The function closes the
    /// arena's descriptor, which only the heap uses. Blocks that are still in use stay valid and may be freed later.
    void end();
    /// Call this after end(), if the job was not aborted. It calls Arena::release() for everything except the blocks in
    /// use. The memory of such a block is released when the block is freed.
    void release();

    /// Whether deallocate() of this heap is responsible for the memory. Before release(), this holds for all memory in
    /// this rank's region. After release(), other code may have got these addresses, so the memory must be a block of
    /// this heap.
    [[nodiscard]] bool owns(const void* memory) const;
    /// The size of the block that begins at `memory`; 0 if no block of this heap begins there.
    [[nodiscard]] std::uint64_t block_bytes(const void* memory) const;

    [[nodiscard]] std::uint64_t used_bytes() const;

private:
    /// Removes `bytes` bytes from the free ranges, beginning at a multiple of `alignment`.
    Result<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
    void give_back(std::uint64_t offset, std::uint64_t bytes);
    Status populate(std::uint64_t offset, std::uint64_t bytes);
    [[nodiscard]] Arena::Pages pages_of_none_but(std::uint64_t offset, std::uint64_t bytes) const;

    std::shared_ptr<Arena> arena_;
    std::uint64_t limit_bytes_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> free_;    // offset → bytes; neighbours are merged
    std::map<std::uint64_t, std::uint64_t> blocks_;  // offset → bytes
    std::uint64_t used_bytes_ = 0;
    std::uint64_t touched_end_ = 0;  // everything below was populated once
    bool quarantined_ = false;
    bool ended_ = false;
    bool released_ = false;
};

}  // namespace rueda::collectives
