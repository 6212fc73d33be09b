// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/arena/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "collectives/host/arena/pages.hpp"

namespace rueda::collectives {
namespace {

/// A rank's region for tensors begins at a multiple of 2 MiB, so that the kernel can use huge pages.
constexpr std::uint64_t kRegion = kHugePage;

#if defined(__SANITIZE_THREAD__)
#define RUEDA_ONE_MAPPING 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUEDA_ONE_MAPPING 1
#endif
#endif

#if defined(RUEDA_ONE_MAPPING)
/// In builds with ThreadSanitizer, and only there, the ranks of one process (threads in a test) share one mapping of
/// the memory. ThreadSanitizer works with virtual addresses. If each rank had its own mapping, ThreadSanitizer would
/// not see races and synchronisation between the ranks.
struct SharedMapping {
    std::byte* address = nullptr;
    int users = 0;
};
using MappedPart = std::pair<ino_t, std::uint64_t>;  // the file's inode, and the number of mapped bytes
std::mutex shared_mappings_mutex;
std::map<MappedPart, SharedMapping> shared_mappings;

ino_t inode_of(int fd) {
    struct stat status {};
    fstat(fd, &status);
    return status.st_ino;
}
#endif

/// Maps the first `bytes` bytes of the file. The address comes from `addresses`. If this is null or has no suitable
/// addresses, the kernel chooses the address.
std::byte* map_memory(int fd, std::uint64_t bytes, AddressReserve* addresses) {
#if defined(RUEDA_ONE_MAPPING)
    addresses = nullptr;
    const std::lock_guard lock(shared_mappings_mutex);
    SharedMapping& shared = shared_mappings[{inode_of(fd), bytes}];
    if (shared.users++ > 0) {
        return shared.address;
    }
#endif
    std::byte* const place = addresses != nullptr ? addresses->take(bytes) : nullptr;
    void* address = mmap(place, bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE | (place != nullptr ? MAP_FIXED : 0), fd, 0);
    if (address == MAP_FAILED) {
        if (place != nullptr) {
            addresses->give(place, bytes);
        }
        return nullptr;
    }
    // A forked child would share this memory with its parent instead of copying it. MADV_DONTFORK leaves the mapping
    // out of the child.
    madvise(address, bytes, MADV_DONTFORK);
    madvise(address, bytes, MADV_DONTDUMP);
#if defined(RUEDA_ONE_MAPPING)
    shared.address = static_cast<std::byte*>(address);
#endif
    return static_cast<std::byte*>(address);
}

void unmap_memory(std::byte* address, std::uint64_t bytes, AddressReserve* addresses) {
#if defined(RUEDA_ONE_MAPPING)
    addresses = nullptr;
    const std::lock_guard lock(shared_mappings_mutex);
    const auto shared = std::find_if(shared_mappings.begin(), shared_mappings.end(),
                                     [address](const auto& mapping) { return mapping.second.address == address; });
    if (--shared->second.users > 0) {
        return;
    }
    shared_mappings.erase(shared);
#endif
    if (addresses != nullptr) {
        addresses->give(address, bytes);
    } else {
        munmap(address, bytes);
    }
}

/// Returns the size of the used part of the control block, in bytes, rounded up to whole pages.
std::uint64_t head_bytes(const ArenaPlan& plan) {
    const std::uint64_t members = std::min<std::uint64_t>(plan.members, base::kMaxLocalRanks);
    return round_up(offsetof(base::ControlBlock, stacks) + members * sizeof(base::StackBlock), kPage);
}

/// Returns the size in bytes of one rank's flight recorder (its record of what it did last); 0 if there are no flight
/// recorders.
std::uint64_t recorder_bytes(const ArenaPlan& plan) { return plan.has_recorder ? sizeof(base::RankRecorder) : 0; }

}  // namespace

Arena::Offsets Arena::offsets(const ArenaPlan& plan) {
    Offsets o{};
    o.negotiation = sizeof(base::ControlBlock);
    o.progress = round_up(o.negotiation + plan.negotiation_bytes, kPage);
    o.recorder = round_up(o.progress + sizeof(Progress) * plan.members, kPage);
    o.cells = round_up(o.recorder + recorder_bytes(plan) * plan.members, kRegion);
    o.messages = round_up(o.cells + plan.cell_bytes * plan.cells_per_rank * plan.members, kPage);
    o.resident = round_up(o.messages + MessageRegion::bytes_for(plan.members, plan.ring_bytes), kRegion);
    o.end = o.resident + plan.resident_bytes * plan.members;
    return o;
}

Result<base::UniqueFd> Arena::create_memory(const ArenaPlan& plan) {
    base::UniqueFd memory(memfd_create("rueda-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "memfd_create");
    }
    if (ftruncate(memory.value(), static_cast<off_t>(offsets(plan).end)) != 0) {
        return system_failure(ErrorCode::resource_exhausted, fmt::format("reserving an arena of {}: ftruncate",
                                                                         base::format_bytes(offsets(plan).end)));
    }
    // Every process of this user can open the file through /proc. If one of these processes truncated the file, the
    // next access of each rank would cause a SIGBUS. The seals prevent this: nobody can change the size. F_SEAL_WRITE
    // cannot be used, because it would forbid the mappings of the ranks. If the kernel cannot seal this file, the job
    // runs without seals.
    static_cast<void>(fcntl(memory.value(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    return memory;
}

Result<std::shared_ptr<Arena>> Arena::map(base::UniqueFd memory, const ArenaPlan& plan, std::uint32_t rank,
                                          AddressReserve* addresses) {
    const std::uint64_t bytes = offsets(plan).end;
    struct stat status {};
    if (fstat(memory.value(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) < bytes) {
        return failure(ErrorCode::internal, "the arena of this host has {} bytes; this rank expects {}", status.st_size,
                       bytes);
    }
    std::byte* const head = map_memory(memory.value(), head_bytes(plan), nullptr);
    std::byte* const base = head != nullptr ? map_memory(memory.value(), bytes, addresses) : nullptr;
    if (base == nullptr) {
        const Status failed =
            system_failure(ErrorCode::resource_exhausted,
                           fmt::format("mapping an arena of {} (a limit of address space, ulimit -v, is met by "
                                       "RUEDA_RESIDENT_LIMIT): mmap",
                                       base::format_bytes(bytes)));
        if (head != nullptr) {
            unmap_memory(head, head_bytes(plan), nullptr);
        }
        return failed;
    }
    return std::shared_ptr<Arena>(new Arena(std::move(memory), plan, rank, addresses, head, base));
}

Arena::~Arena() {
    if (!released_ && !keeps_everything_) {
        std::sort(kept_mapped_.begin(), kept_mapped_.end(),
                  [](const Pages& one, const Pages& other) { return one.offset < other.offset; });
        unmap_all_but(kept_mapped_);
    }
    if (!released_ || job_ == nullptr) {
        unmap_memory(head_, head_bytes(plan_), nullptr);
    }
}

void Arena::release(std::span<const Pages> kept) {
#if !defined(RUEDA_ONE_MAPPING)
    released_ = true;
    if (job_ == nullptr) {
        detach_head();
    } else {
        munmap(head_, head_bytes(plan_));
    }
    unmap_all_but(kept);
#else
    static_cast<void>(kept);
#endif
}

/// `kept` is in ascending order.
void Arena::unmap_all_but(std::span<const Pages> kept) {
    if (kept.empty()) {
        unmap_memory(base_, offsets_.end, addresses_);
        return;
    }
#if !defined(RUEDA_ONE_MAPPING)
    // The kernel may refuse to unmap a part of a mapping if the process already has the maximum number of mappings. In
    // that case, the addresses of this part stay in use.
    std::byte* from = base_;
    for (const Pages& pages : kept) {
        std::byte* const begin = resident(rank_) + pages.offset;
        if (begin > from) {
            munmap(from, static_cast<std::size_t>(begin - from));
        }
        from = begin + pages.bytes;
    }
    if (base_ + offsets_.end > from) {
        munmap(from, static_cast<std::size_t>(base_ + offsets_.end - from));
    }
#endif
}

void Arena::keep_mapped(Pages pages) noexcept try { kept_mapped_.push_back(pages); } catch (const std::bad_alloc&) {
    keeps_everything_ = true;
}

void Arena::release_kept(Pages pages) {
    if (released_) {
        munmap(resident(rank_) + pages.offset, pages.bytes);
    }
}

/// Replaces the control block by private memory. Without this replacement, the kernel would keep all memory of the
/// arena, because one of its pages would still be mapped. The replacement happens in one step: a thread that reads the
/// block at this time sees either the old block or the new block.
void Arena::detach_head() {
    const std::uint64_t bytes = head_bytes(plan_);
    void* const own = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) {
        return;
    }
    // All zeros is a valid initial state: no rank sleeps, and no abort was raised.
    auto& block = *static_cast<base::ControlBlock*>(own);
    for (std::uint32_t member = 0; member < plan_.members; ++member) {
        const base::RankBlock& from = control().ranks[member];
        base::RankBlock& to = block.ranks[member];
        to.pid.store(from.pid.load(std::memory_order_relaxed), std::memory_order_relaxed);
        to.global_rank.store(from.global_rank.load(std::memory_order_relaxed), std::memory_order_relaxed);
        to.process_start.store(from.process_start.load(std::memory_order_relaxed), std::memory_order_relaxed);
        // All ranks get the state `left`: from now on, the end of another rank is no failure for this process.
        to.state.store(static_cast<std::uint32_t>(base::RankState::left), std::memory_order_relaxed);
    }
    // The system call is made directly, because UCX replaces the C library's mremap(). UCX's function ignores the new
    // address, so the block would move to the address 0 (seen with UCX 1.13.1).
    constexpr int kReplace = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (::syscall(SYS_mremap, own, bytes, bytes, kReplace, head_) == -1) {
        munmap(own, bytes);
    }
}

void Arena::initialise() {
    auto* control = new (base_) base::ControlBlock;
    control->members = plan_.members;
    control->total_bytes = offsets_.end;
    control->negotiation_offset = offsets_.negotiation;
    control->negotiation_bytes = plan_.negotiation_bytes;
    control->progress_offset = offsets_.progress;
    control->cells_offset = offsets_.cells;
    control->cell_bytes = plan_.cell_bytes;
    control->cells_per_rank = plan_.cells_per_rank;
    control->resident_offset = offsets_.resident;
    control->resident_bytes = plan_.resident_bytes;
    control->recorder_offset = offsets_.recorder;
    control->recorder_bytes = recorder_bytes(plan_);
    control->layout_version = base::ControlBlock::kLayoutVersion;
    control->magic = base::ControlBlock::kMagic;
}

void Arena::join(std::shared_ptr<Arena> job, std::span<const std::uint32_t> members) {
    blocks_ = base::HostBlocks(job->blocks(), members);
    job_members_.assign(members.begin(), members.end());
    job_ = std::move(job);
}

Status Arena::check() const {
    const base::ControlBlock& block = control();
    if (block.magic != base::ControlBlock::kMagic || block.layout_version != base::ControlBlock::kLayoutVersion) {
        return failure(
            ErrorCode::unsupported,
            "the arena of this host has layout version {}, this rank's Rueda {}: all ranks need the same Rueda",
            block.layout_version, base::ControlBlock::kLayoutVersion);
    }
    if (block.members != plan_.members || block.total_bytes != offsets_.end ||
        block.negotiation_bytes != plan_.negotiation_bytes || block.cell_bytes != plan_.cell_bytes ||
        block.cells_per_rank != plan_.cells_per_rank || block.resident_bytes != plan_.resident_bytes ||
        block.recorder_bytes != recorder_bytes(plan_)) {
        return failure(
            ErrorCode::invalid_argument,
            "the ranks of this host laid out their arena differently ({} and {} bytes): give all ranks the same "
            "RUEDA_* settings",
            block.total_bytes, offsets_.end);
    }
    return {};
}

}  // namespace rueda::collectives
