// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/arena/resident_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <vector>

#include "base/system/memory_limits.hpp"
#include "base/text.hpp"
#include "collectives/host/arena/pages.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux has this constant since 5.14; older C libraries do not define it
#endif

namespace rueda::collectives {
namespace {

std::uint64_t alignment_for(std::uint64_t bytes) {
    return bytes >= kHugePage ? kHugePage : bytes >= ResidentHeap::kLargeBlock ? kPage : base::kCacheLine;
}

}  // namespace

ResidentHeap::ResidentHeap(std::shared_ptr<Arena> arena, std::uint64_t limit_bytes)
    : arena_(std::move(arena)), limit_bytes_(limit_bytes == 0 ? arena_->plan().resident_bytes : limit_bytes) {
    free_[0] = arena_->plan().resident_bytes;
}

Result<void*> ResidentHeap::allocate(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (ended_) {
        return Status(ErrorCode::not_initialized,
                      "resident memory: rueda::shutdown() has been called on this rank; call rueda::init() before "
                      "allocating more");
    }
    if (bytes > limit_bytes_ || used_bytes_ > limit_bytes_ - bytes) {
        return failure(ErrorCode::resource_exhausted,
                       "resident memory: {} asked for, {} in use, and the limit of a rank is {} (RUEDA_RESIDENT_LIMIT)",
                       base::format_bytes(bytes), base::format_bytes(used_bytes_), base::format_bytes(limit_bytes_));
    }
    const std::uint64_t alignment = alignment_for(bytes);
    const std::uint64_t size = round_up(std::max<std::uint64_t>(bytes, 1), alignment == kHugePage ? kPage : alignment);
    Result<std::uint64_t> taken = take(size, alignment);
    RUEDA_RETURN_IF_FAILED(taken.status());
    const std::uint64_t offset = taken.value();
    if (Status populated = populate(offset, size); !populated.is_ok()) {
        give_back(offset, size);
        return populated;
    }
    blocks_[offset] = size;
    used_bytes_ += size;
    return static_cast<void*>(arena_->resident(arena_->rank()) + offset);
}

Status ResidentHeap::deallocate(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto region = reinterpret_cast<std::uintptr_t>(arena_->resident(arena_->rank()));
    const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(memory) - region);
    if (block == blocks_.end()) {
        return failure(ErrorCode::invalid_argument,
                       "{} is not memory that rueda::allocate gave out on this rank (or it was "
                       "given back before)",
                       memory);
    }
    const auto [offset, bytes] = *block;
    blocks_.erase(block);
    used_bytes_ -= bytes;
    if (quarantined_) {
        return {};
    }
    if (released_) {
        if (const Arena::Pages pages = pages_of_none_but(offset, bytes); pages.bytes > 0) {
            // The pages must also be removed from the file. Otherwise they would stay allocated as long as another
            // block of the file is mapped.
            madvise(arena_->resident(arena_->rank()) + pages.offset, pages.bytes, MADV_REMOVE);
            arena_->release_kept(pages);
        }
        return {};
    }
    if (bytes >= kLargeBlock) {
        // Returns the block's pages to the system. When these addresses are used again, they contain zeros.
        if (arena_->descriptor() >= 0) {
            fallocate(arena_->descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(arena_->resident_file_offset(arena_->rank()) + offset),
                      static_cast<off_t>(bytes));
        } else {
            // The descriptor is closed, so the pages are returned through the mapping. This fails for memory that the
            // program has locked. The failure does no harm, because this memory is never used again.
            madvise(memory, bytes, MADV_REMOVE);
        }
    }
    give_back(offset, bytes);
    return {};
}

void ResidentHeap::keep_mapped(void* memory) noexcept {
    const std::lock_guard lock(mutex_);
    const auto region = reinterpret_cast<std::uintptr_t>(arena_->resident(arena_->rank()));
    const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(memory) - region);
    if (block != blocks_.end()) {
        const std::uint64_t begin = round_down(block->first, kPage);
        arena_->keep_mapped({begin, round_up(block->first + block->second, kPage) - begin});
    }
}

void ResidentHeap::quarantine() {
    const std::lock_guard lock(mutex_);
    quarantined_ = true;
}

void ResidentHeap::end_quarantine() {
    const std::lock_guard lock(mutex_);
    quarantined_ = false;
}

void ResidentHeap::end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    arena_->close_descriptor();
}

void ResidentHeap::release() {
    const std::lock_guard lock(mutex_);
    if (quarantined_) {
        return;
    }
    std::vector<Arena::Pages> kept;
    try {
        for (const auto& [offset, bytes] : blocks_) {
            const std::uint64_t begin = round_down(offset, kPage);
            const std::uint64_t end = round_up(offset + bytes, kPage);
            if (!kept.empty() && kept.back().offset + kept.back().bytes >= begin) {
                kept.back().bytes = end - kept.back().offset;
            } else {
                kept.push_back({begin, end - begin});
            }
        }
    } catch (const std::bad_alloc&) {
        return;  // no memory for the list of the ranges to keep, so everything stays mapped
    }
    released_ = true;
    arena_->release(kept);
}

bool ResidentHeap::owns(const void* memory) const {
    const std::optional<std::uint64_t> offset = arena_->resident_offset(memory, 1);
    if (!offset) {
        return false;
    }
    const std::lock_guard lock(mutex_);
    return !released_ || blocks_.contains(*offset);
}

std::uint64_t ResidentHeap::block_bytes(const void* memory) const {
    const auto region = reinterpret_cast<std::uintptr_t>(arena_->resident(arena_->rank()));
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(memory) - region);
    return block != blocks_.end() ? block->second : 0;
}

/// Finds the pages of a freed block that contain no part of another block.
Arena::Pages ResidentHeap::pages_of_none_but(std::uint64_t offset, std::uint64_t bytes) const {
    std::uint64_t begin = round_down(offset, kPage);
    std::uint64_t end = round_up(offset + bytes, kPage);
    const auto next = blocks_.upper_bound(offset);
    if (next != blocks_.end() && next->first < end) {
        end -= kPage;
    }
    if (next != blocks_.begin()) {
        const auto previous = std::prev(next);
        begin += previous->first + previous->second > begin ? kPage : 0;
    }
    return begin < end ? Arena::Pages{begin, end - begin} : Arena::Pages{};
}

std::uint64_t ResidentHeap::used_bytes() const {
    const std::lock_guard lock(mutex_);
    return used_bytes_;
}

Result<std::uint64_t> ResidentHeap::take(std::uint64_t bytes, std::uint64_t alignment) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        const std::uint64_t padding = round_up(range->first, alignment) - range->first;
        if (range->second >= padding && range->second - padding >= bytes &&
            (best == free_.end() || range->second < best->second)) {
            best = range;
        }
    }
    if (best == free_.end()) {
        return failure(ErrorCode::resource_exhausted,
                       "resident memory: no free range of {} is left in the {} that this rank reserved; raise "
                       "RUEDA_RESIDENT_LIMIT",
                       base::format_bytes(bytes), base::format_bytes(arena_->plan().resident_bytes));
    }
    const auto [begin, length] = *best;
    free_.erase(best);
    const std::uint64_t offset = round_up(begin, alignment);
    if (offset > begin) {
        free_[begin] = offset - begin;
    }
    if (const std::uint64_t rest = begin + length - (offset + bytes); rest > 0) {
        free_[offset + bytes] = rest;
    }
    return offset;
}

void ResidentHeap::give_back(std::uint64_t offset, std::uint64_t bytes) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
        bytes += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin()) {
        const auto previous = std::prev(next);
        if (previous->first + previous->second == offset) {
            previous->second += bytes;
            return;
        }
    }
    free_[offset] = bytes;
}

Status ResidentHeap::populate(std::uint64_t offset, std::uint64_t bytes) {
    std::byte* memory = arena_->resident(arena_->rank()) + offset;
    if (bytes >= kLargeBlock && offset < touched_end_) {
        // The pages may contain old data of small blocks. Punching a hole replaces them by zeros.
        fallocate(arena_->descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(arena_->resident_file_offset(arena_->rank()) + offset), static_cast<off_t>(bytes));
    }
    // Checks the memory limit if the block may need many new pages. A small block in a range that was used before needs
    // at most a few: usually it has its pages already, except where a large block beside it was freed.
    if (bytes >= kLargeBlock || offset + bytes > touched_end_) {
        RUEDA_RETURN_IF_FAILED(base::check_memory(bytes, "resident memory"));
    }
    std::byte* first_page = memory - offset % kPage;
    const std::uint64_t length = round_up(offset + bytes, kPage) - round_down(offset, kPage);
    if (bytes >= kHugePage) {
        madvise(first_page, length, MADV_HUGEPAGE);
    }
    // madvise allocates the pages through the mapping, so they become huge pages and lie on the NUMA node of this
    // thread. If memory is short, madvise returns an error, whereas a plain access to the memory would raise a signal.
    // Before Linux 5.14, fallocate is used instead, which allocates small pages.
    if (madvise(first_page, length, MADV_POPULATE_WRITE) != 0) {
        const auto file_offset =
            static_cast<off_t>(arena_->resident_file_offset(arena_->rank()) + round_down(offset, kPage));
        if (errno != EINVAL || fallocate(arena_->descriptor(), 0, file_offset, static_cast<off_t>(length)) != 0) {
            return system_failure(ErrorCode::resource_exhausted,
                                  fmt::format("resident memory: touching {}", base::format_bytes(bytes)));
        }
    }
    if (bytes < kLargeBlock) {
        std::memset(memory, 0, bytes);  // the pages may contain data of an earlier block
    }
    touched_end_ = std::max(touched_end_, round_up(offset + bytes, kPage));
    return {};
}

}  // namespace rueda::collectives
