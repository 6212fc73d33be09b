// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.hpp"
#include "collectives/host/arena.hpp"

namespace rueda::collectives {

/// Hands out memory of this rank's resident region of the arena. Its books are private to the process: the others only
/// see offsets. Best fit over a map of free ranges; blocks from kLargeBlock on begin on a page and give their memory
/// back to the system when freed, smaller ones share pages.
///
/// Threads: all functions from any thread (one mutex).
class ResidentHeap {
public:
    static constexpr std::uint64_t kLargeBlock = 64 * 1024;

    /// `limit_bytes` 0: what the machine's memory allows.
    ResidentHeap(std::shared_ptr<Arena> arena, std::uint64_t limit_bytes);

    /// Zeroed, aligned to a cache line (a large block to a page, from 2 MiB on to a huge page). Memory limits are
    /// compared, and the pages touched, before it returns: ResourceExhausted instead of a fault later.
    Result<void*> allocate(std::uint64_t bytes);
    /// InvalidArgument for memory that is not a block of this heap.
    Status deallocate(void* memory);
    /// After an abort somebody may still write here: nothing is reused or given back from now on.
    void quarantine();
    /// The end of the job: NotInitialized from now on instead of new blocks, and the arena's descriptor, which nobody
    /// else uses, is closed. Blocks that are still out stay as they are, and may be given back.
    void end();
    /// After it, of a job that was not aborted: Arena::release(), of all but those blocks. Theirs goes as they are
    /// given back.
    void release();

    /// Whether deallocate() is this heap's: the memory lies in this rank's region; after release(), which may leave the
    /// addresses to others, it is a block.
    [[nodiscard]] bool owns(const void* memory) const;

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
