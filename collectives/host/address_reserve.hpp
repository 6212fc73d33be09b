// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace rueda::collectives {

/// The addresses of an arena that has been unmapped, kept for the next one: jobs that follow each other in one process
/// then take the same ones. Without it whatever the program maps between two jobs, and keeps, may come to lie where the
/// last arena was; the next one, which is of the same size, would no longer fit there, and the process use up its
/// address space. What is reserved has neither memory nor page tables.
///
/// Threads: any (one mutex).
class AddressReserve {
public:
    AddressReserve() = default;
    ~AddressReserve();
    AddressReserve(const AddressReserve&) = delete;
    AddressReserve& operator=(const AddressReserve&) = delete;

    /// `bytes` of the kept addresses, which are the caller's from now on, to be mapped over; null: there are none, or
    /// too few.
    [[nodiscard]] std::byte* take(std::uint64_t bytes);
    /// Unmaps [address, address + bytes), all of it the caller's, and keeps the addresses, or the larger of two ranges.
    /// Where the process has a limit of address space nothing is kept: it would count.
    void give(std::byte* address, std::uint64_t bytes);

private:
    std::mutex mutex_;
    std::byte* address_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace rueda::collectives
