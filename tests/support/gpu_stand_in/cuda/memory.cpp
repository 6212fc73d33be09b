// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace rueda::tests::gpu {
namespace {

std::size_t round_to_pages(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}
std::size_t history_bytes() { return round_to_pages(sizeof(History)); }

}  // namespace

Memory::~Memory() {
    for (auto& [base, allocation] : allocations_) {
        ::munmap(allocation->mapping,
                 history_bytes() + (allocation->is_registered_host ? 0 : round_to_pages(allocation->bytes)));
        if (allocation->file >= 0) {
            ::close(allocation->file);
        }
    }
}

Allocation* Memory::map(int file, std::size_t bytes) {
    const std::size_t whole = history_bytes() + round_to_pages(bytes);
    void* mapping = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapping == MAP_FAILED) {
        ::close(file);
        return nullptr;
    }
    auto allocation = std::make_unique<Allocation>();
    allocation->mapping = mapping;
    allocation->history = static_cast<History*>(mapping);
    allocation->base = reinterpret_cast<std::uintptr_t>(mapping) + history_bytes();
    allocation->bytes = bytes;
    allocation->file = file;
    allocation->number = ++numbers_;
    struct stat status {};
    ::fstat(file, &status);
    allocation->inode = status.st_ino;
    Allocation* result = allocation.get();
    allocations_[result->base] = std::move(allocation);
    return result;
}

Allocation* Memory::allocate(std::size_t bytes, int device) {
    const int file = ::memfd_create("gpu_stand_in", MFD_CLOEXEC);
    if (file < 0) {
        return nullptr;
    }
    if (::ftruncate(file, static_cast<off_t>(history_bytes() + round_to_pages(bytes))) != 0) {
        ::close(file);
        return nullptr;
    }
    Allocation* allocation = map(file, bytes);
    if (allocation != nullptr) {
        allocation->device = device;
        // New memory has no defined contents. As a float, these bytes are -1.5e8, which is not a plausible result.
        constexpr std::size_t kMostBytes = std::size_t{16} << 20;
        std::memset(reinterpret_cast<void*>(allocation->base), 0xCD, std::min(bytes, kMostBytes));
    }
    return allocation;
}

Allocation* Memory::import(int file, std::size_t bytes, int device, int importing_device) {
    Allocation* allocation = map(file, bytes);
    if (allocation != nullptr) {
        allocation->device = device;
        allocation->is_imported = true;
        allocation->importing_device = importing_device;
        allocation->opened = 1;
        allocation->history->add_importer(::getpid());
        set_exported(*allocation);
    }
    return allocation;
}

Allocation* Memory::add_host(DeviceAddress base, std::size_t bytes) {
    void* mapping =
        ::mmap(nullptr, history_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return nullptr;
    }
    auto allocation = std::make_unique<Allocation>();
    allocation->mapping = mapping;
    allocation->history = static_cast<History*>(mapping);
    allocation->base = base;
    allocation->bytes = bytes;
    allocation->number = ++numbers_;
    allocation->is_registered_host = true;
    return (allocations_[base] = std::move(allocation)).get();
}

void Memory::remove_host(Allocation& allocation) {
    ::munmap(allocation.mapping, history_bytes());
    allocations_.erase(allocation.base);
}

Allocation* Memory::find(DeviceAddress address) {
    const auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) {
        return nullptr;
    }
    Allocation* allocation = std::prev(after)->second.get();
    return address - allocation->base < allocation->bytes ? allocation : nullptr;
}

void Memory::free(Allocation& allocation) {
    if (allocation.is_imported) {
        allocation.history->remove_importer(::getpid());
    }
    shared_.erase(allocation.base);
    allocation.is_freed = true;
    allocation.history = nullptr;
    // The addresses stay reserved, and the pages are given back.
    const std::size_t whole = history_bytes() + round_to_pages(allocation.bytes);
    ::mmap(allocation.mapping, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    ::close(allocation.file);
    allocation.file = -1;
}

std::size_t Memory::device_bytes() const {
    std::size_t sum = 0;
    for (const auto& [base, allocation] : allocations_) {
        if (!allocation->is_freed && !allocation->is_imported && allocation->device != Allocation::kPinnedHost) {
            sum += allocation->bytes;
        }
    }
    return sum;
}

void Memory::exchange(Clock& host) {
    for (auto& [base, allocation] : shared_) {
        allocation->history->exchange(host);
    }
}

bool check_access(Machine& machine, const Range& range, const Accessor& accessor) {
    if (range.bytes == 0) {
        return true;
    }
    const char* verb = range.write ? "writes" : "reads";
    Allocation* allocation = machine.memory->find(range.address);
    if (allocation == nullptr) {
        machine.report(fmt::format("{} {} {} bytes at {:#x}, which is not memory of the driver", accessor.label, verb,
                                   range.bytes, range.address));
        return false;
    }
    const DeviceAddress first = range.address - allocation->base;
    const std::string place = fmt::format("bytes {} to {} of allocation {} ({} bytes)", first, first + range.bytes,
                                          allocation->number, allocation->bytes);
    if (allocation->is_freed) {
        machine.report(fmt::format("{} {} {} after the memory was freed", accessor.label, verb, place));
        return false;
    }
    if (!allocation->contains(range.address, range.bytes)) {
        machine.report(fmt::format("{} {} {}, beyond its end", accessor.label, verb, place));
        return false;
    }
    // CUDA C++ Programming Guide, "Peer-to-Peer Memory Access": a kernel reaches memory of another device only after
    // peer access was enabled. Opening memory of another process with CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS enables it.
    if (!accessor.reaches_other_devices && !allocation->is_reachable_by(accessor.device)) {
        machine.report(fmt::format("{} {} {}, which is memory of device {}, without peer access", accessor.label, verb,
                                   place, allocation->device));
        return false;
    }
    const History::Access access{.first = first,
                                 .end = first + range.bytes,
                                 .write = range.write,
                                 .actor = accessor.actor,
                                 .time = accessor.time,
                                 .clock = accessor.clock,
                                 .label = accessor.label};
    allocation->history->add(access, [&](const std::string& other, bool other_writes) {
        machine.report(
            fmt::format("Race: {} {} {}, and {} {} it, but nothing orders the two. An event is missing: record it "
                        "after the first of "
                        "them, and let the stream or the host of the second wait for it.",
                        accessor.label, verb, place, other, other_writes ? "writes" : "reads"));
    });
    return true;
}

}  // namespace rueda::tests::gpu
