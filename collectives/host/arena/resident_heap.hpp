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

/// Hands out memory of this rank's resident region of the arena. Its books are private to the process; other ranks only
/// see offsets. It uses best fit over a map of free ranges. Blocks of at least kLargeBlock bytes begin on a page and
/// return their memory to the system when they are freed; smaller blocks share pages.
///
/// Threads: all functions from any thread (one mutex).
class ResidentHeap {
public:
    static constexpr std::uint64_t kLargeBlock = 64 * 1024;

    /// If `limit_bytes` is 0, the machine's memory is the limit.
    ResidentHeap(std::shared_ptr<Arena> arena, std::uint64_t limit_bytes);

    /// Returns zeroed memory, aligned to a cache line (a large block to a page, from 2 MiB on to a huge page). Before
    /// it returns, the function compares the memory limits and touches the pages. Too little memory is therefore
    /// ResourceExhausted here, and not a fault later.
    Result<void*> allocate(std::uint64_t bytes);
    /// Fails with InvalidArgument for memory that is not a block of this heap.
    Status deallocate(void* memory);
    /// Call this after an abort: other ranks may still write here, so nothing is reused or given back from now on.
    void quarantine();
    /// Ends the job for this heap. From now on allocate() fails with NotInitialized. The arena's descriptor, which
    /// nothing else uses, is closed. Blocks that are still in use stay valid and may be given back.
    void end();
    /// Call this after end(), if the job was not aborted. It calls Arena::release() for everything except blocks in
    /// use; their memory is released when they are given back.
    void release();

    /// Whether deallocate() of this memory belongs to this heap: the memory lies in this rank's region. After release()
    /// others may use those addresses, so then the memory must be a block of this heap.
    [[nodiscard]] bool owns(const void* memory) const;
    /// The size of the block that begins there; 0 if no block of this heap does.
    [[nodiscard]] std::uint64_t block_bytes(const void* memory) const;

    [[nodiscard]] std::uint64_t used_bytes() const;

private:
    /// Takes `bytes` at a multiple of `alignment` out of the free ranges.
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
