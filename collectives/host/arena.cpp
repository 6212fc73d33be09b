// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/arena.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

#include "base/text.hpp"

namespace rueda::collectives {
namespace {

/// Regions begin on 2 MiB, so that huge pages fit where the kernel gives them.
constexpr std::uint64_t kRegion = std::uint64_t{2} << 20;
constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

#if defined(__SANITIZE_THREAD__)
#define RUEDA_ONE_MAPPING 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUEDA_ONE_MAPPING 1
#endif
#endif

#if defined(RUEDA_ONE_MAPPING)
/// ThreadSanitizer follows virtual addresses: two mappings of one memory would hide every race and every
/// synchronisation between ranks that are threads. So ranks of one process share a mapping in such builds only.
struct SharedMapping {
    std::byte* address = nullptr;
    int users = 0;
};
std::mutex shared_mappings_mutex;
std::map<ino_t, SharedMapping> shared_mappings;

ino_t inode_of(int fd) {
    struct stat status {};
    fstat(fd, &status);
    return status.st_ino;
}
#endif

std::byte* map_memory(int fd, std::uint64_t bytes) {
#if defined(RUEDA_ONE_MAPPING)
    const std::lock_guard lock(shared_mappings_mutex);
    SharedMapping& shared = shared_mappings[inode_of(fd)];
    if (shared.users++ > 0) {
        return shared.address;
    }
#endif
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (address == MAP_FAILED) {
        return nullptr;
    }
    // fork: the child would share this memory, not copy it. It gets none of it.
    madvise(address, bytes, MADV_DONTFORK);
    madvise(address, bytes, MADV_DONTDUMP);
#if defined(RUEDA_ONE_MAPPING)
    shared.address = static_cast<std::byte*>(address);
#endif
    return static_cast<std::byte*>(address);
}

void unmap_memory(std::byte* address, std::uint64_t bytes) {
#if defined(RUEDA_ONE_MAPPING)
    const std::lock_guard lock(shared_mappings_mutex);
    const auto shared = std::find_if(shared_mappings.begin(), shared_mappings.end(),
                                     [address](const auto& mapping) { return mapping.second.address == address; });
    if (--shared->second.users > 0) {
        return;
    }
    shared_mappings.erase(shared);
#endif
    munmap(address, bytes);
}

}  // namespace

Arena::Offsets Arena::offsets(const ArenaPlan& plan) {
    Offsets o{};
    o.negotiation = sizeof(base::ControlBlock);
    o.progress = round_up(o.negotiation + plan.negotiation_bytes, kPage);
    o.cells = round_up(o.progress + sizeof(Progress) * plan.members, kRegion);
    o.messages = round_up(o.cells + plan.cell_bytes * plan.cells_per_rank * plan.members, kPage);
    o.resident = round_up(o.messages + MessageRegion::bytes_for(plan.members, plan.ring_bytes), kRegion);
    o.end = o.resident + plan.resident_bytes * plan.members;
    return o;
}

Result<base::UniqueFd> Arena::create_memory(const ArenaPlan& plan) {
    base::UniqueFd memory(memfd_create("rueda-arena", MFD_CLOEXEC));
    if (!memory.is_open()) {
        return system_failure(ErrorCode::resource_exhausted, "memfd_create");
    }
    if (ftruncate(memory.value(), static_cast<off_t>(offsets(plan).end)) != 0) {
        return system_failure(ErrorCode::resource_exhausted, fmt::format("reserving an arena of {}: ftruncate",
                                                                         base::format_bytes(offsets(plan).end)));
    }
    return memory;
}

Result<std::shared_ptr<Arena>> Arena::map(base::UniqueFd memory, const ArenaPlan& plan, std::uint32_t rank) {
    const std::uint64_t bytes = offsets(plan).end;
    struct stat status {};
    if (fstat(memory.value(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) < bytes) {
        return failure(ErrorCode::internal, "the arena of this host has {} bytes; this rank expects {}", status.st_size,
                       bytes);
    }
    std::byte* address = map_memory(memory.value(), bytes);
    if (address == nullptr) {
        return system_failure(ErrorCode::resource_exhausted,
                              fmt::format("mapping an arena of {} (a limit of address space, ulimit -v, is met by "
                                          "RUEDA_RESIDENT_LIMIT): mmap",
                                          base::format_bytes(bytes)));
    }
    return std::shared_ptr<Arena>(new Arena(std::move(memory), plan, rank, address));
}

Arena::~Arena() { unmap_memory(base_, offsets_.end); }

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
        block.cells_per_rank != plan_.cells_per_rank || block.resident_bytes != plan_.resident_bytes) {
        return failure(
            ErrorCode::invalid_argument,
            "the ranks of this host laid out their arena differently ({} and {} bytes): give all ranks the same "
            "RUEDA_* settings",
            block.total_bytes, offsets_.end);
    }
    return {};
}

}  // namespace rueda::collectives
