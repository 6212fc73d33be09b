// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace rueda::collectives {

/// Keeps the addresses of an unmapped arena (the shared memory of a job) for the next arena in the same process.
/// Otherwise the program could map memory of its own at these addresses between two jobs. The next arena would then
/// need other addresses, and a process with many jobs would use up its address space. Reserved addresses use neither
/// memory nor page tables.
///
/// Threads: any thread may call these functions; one mutex protects the state.
class AddressReserve {
public:
    AddressReserve() = default;
    ~AddressReserve();
    AddressReserve(const AddressReserve&) = delete;
    AddressReserve& operator=(const AddressReserve&) = delete;

    /// Takes `bytes` bytes of the kept addresses. The caller then owns them and maps memory over them. Returns null if
    /// the object keeps no addresses, or too few.
    [[nodiscard]] std::byte* take(std::uint64_t bytes);
    /// Unmaps [address, address + bytes), which the caller owned, and keeps the addresses. If the object already keeps
    /// addresses, it keeps only the larger of the two ranges. If the process has a limit on its address space, this
    /// function keeps no addresses, because reserved addresses count towards this limit.
    void give(std::byte* address, std::uint64_t bytes);

private:
    std::mutex mutex_;
    std::byte* address_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace rueda::collectives
