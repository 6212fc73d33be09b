// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/support/gpu_stand_in/cuda/history.hpp"
#include "tests/support/gpu_stand_in/cuda/machine.hpp"

namespace rueda::tests::gpu {

/// Memory that the driver knows: memory of a device, or pinned memory of the host. A memfd holds the memory,
/// so another process can open it. In the memfd, the history of accesses comes before the memory itself.
struct Allocation {
    static constexpr int kPinnedHost = -1;

    DeviceAddress base = 0;
    std::size_t bytes = 0;
    int device = kPinnedHost;
    unsigned number = 0;  ///< for texts
    int file = -1;
    void* mapping = nullptr;
    History* history = nullptr;
    bool is_freed = false;
    bool is_from_nccl = false;        ///< ncclMemAlloc() made it
    bool is_registered_host = false;  ///< memory of the program that cuMemHostRegister() pinned
    // For memory of another process:
    bool is_imported = false;
    int importing_device = kPinnedHost;
    unsigned opened = 0;  ///< the number of times that the memory was opened and not closed
    std::uint64_t inode = 0;

    [[nodiscard]] bool is_reachable_by(int other) const {
        return device == kPinnedHost || device == other || (is_imported && importing_device == other);
    }
    [[nodiscard]] bool contains(DeviceAddress address, std::size_t count) const {
        return address >= base && address - base <= bytes && count <= bytes - (address - base);
    }
};

/// All memory that the driver knows. Addresses of freed memory are not used again, so a use after free is always found.
///
/// Threads: the caller holds Machine::mutex.
class Memory {
public:
    Memory() = default;
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    /// Returns null if there is no memory left.
    [[nodiscard]] Allocation* allocate(std::size_t bytes, int device);
    /// Adds memory of the program, which the driver pins.
    [[nodiscard]] Allocation* add_host(DeviceAddress base, std::size_t bytes);
    /// Forgets memory of add_host().
    void remove_host(Allocation& allocation);
    /// Maps the memory in `file`, which another process has made. Takes ownership of the file.
    [[nodiscard]] Allocation* import(int file, std::size_t bytes, int device, int importing_device);
    /// Returns the allocation that contains the address, or null. The allocation may already have been freed.
    [[nodiscard]] Allocation* find(DeviceAddress address);
    void free(Allocation& allocation);
    [[nodiscard]] std::size_t device_bytes() const;
    /// Exchanges clocks with all processes that share memory with this process. Afterwards, the next step of each host
    /// program counts as later than all work that the other host programs know to have ended.
    void exchange(Clock& host);
    void set_exported(Allocation& allocation) { shared_[allocation.base] = &allocation; }
    [[nodiscard]] std::map<DeviceAddress, std::unique_ptr<Allocation>>& all() { return allocations_; }

private:
    [[nodiscard]] Allocation* map(int file, std::size_t bytes);

    std::map<DeviceAddress, std::unique_ptr<Allocation>> allocations_;
    std::map<DeviceAddress, Allocation*> shared_;
    unsigned numbers_ = 0;
};

/// The operation or the host thread that accesses memory, and the time of the access.
struct Accessor {
    Actor actor = 0;
    Time time = 0;
    const Clock* clock = nullptr;
    std::string label{};
    int device = Allocation::kPinnedHost;
    bool reaches_other_devices = true;
};
/// Checks an access and adds it to the history. Reports races. Returns false, after a report, if the memory cannot be
/// accessed.
[[nodiscard]] bool check_access(Machine& machine, const Range& range, const Accessor& accessor);

}  // namespace rueda::tests::gpu
