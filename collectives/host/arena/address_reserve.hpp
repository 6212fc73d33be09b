// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace rueda::collectives {

/// Keeps the addresses of an unmapped arena for the next arena, so that successive jobs in one process use the same
/// addresses. Otherwise, if the program maps memory between two jobs and keeps it, this memory could get addresses of
/// the old arena. Then the next arena, which has the same size, would not fit there any more, and the process would use
/// up its address space in time. Reserved addresses use neither memory nor page tables.
///
/// Threads: any (one mutex).
class AddressReserve {
public:
    AddressReserve() = default;
    ~AddressReserve();
    AddressReserve(const AddressReserve&) = delete;
    AddressReserve& operator=(const AddressReserve&) = delete;

    /// Takes `bytes` of the kept addresses. They then belong to the caller, which maps memory over them. Returns null
    /// if no addresses are kept, or too few.
    [[nodiscard]] std::byte* take(std::uint64_t bytes);
    /// Unmaps [address, address + bytes), which belongs to the caller, and keeps the addresses. If other addresses are
    /// kept already, only the larger of the two ranges is kept. If the process has a limit on its address space,
    /// nothing is kept, because reserved addresses count towards the limit.
    void give(std::byte* address, std::uint64_t bytes);

private:
    std::mutex mutex_;
    std::byte* address_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace rueda::collectives
