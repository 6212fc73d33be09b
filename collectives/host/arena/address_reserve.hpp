// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace rueda::collectives {

/// Keeps the addresses of an arena that was unmapped for the next arena, so that jobs that follow each other in one
/// process use the same addresses. Otherwise a program that maps and keeps memory between two jobs could get addresses
/// of the old arena. The next arena, which has the same size, would no longer fit there, and the process would use up
/// its address space in time. Reserved addresses use neither memory nor page tables.
///
/// Threads: any (one mutex).
class AddressReserve {
public:
    AddressReserve() = default;
    ~AddressReserve();
    AddressReserve(const AddressReserve&) = delete;
    AddressReserve& operator=(const AddressReserve&) = delete;

    /// Takes `bytes` of the kept addresses. They now belong to the caller, which maps over them. Returns null if there
    /// are none, or too few.
    [[nodiscard]] std::byte* take(std::uint64_t bytes);
    /// Unmaps [address, address + bytes), which belongs to the caller, and keeps the addresses. If two ranges are at
    /// hand, only the larger one is kept. If the process has a limit on its address space nothing is kept, because
    /// reserved addresses count towards it.
    void give(std::byte* address, std::uint64_t bytes);

private:
    std::mutex mutex_;
    std::byte* address_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace rueda::collectives
