// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/arena/address_reserve.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <utility>

namespace rueda::collectives {
namespace {

bool is_limited() {
    rlimit limit{};
    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/// Replaces a mapping by reserved addresses in one step, so that no other thread can get the addresses in between. If
/// this function returns false, the old mapping is unchanged.
bool reserve(std::byte* address, std::uint64_t bytes) {
    return mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

}  // namespace

AddressReserve::~AddressReserve() {
    if (address_ != nullptr) {
        munmap(address_, bytes_);
    }
}

std::byte* AddressReserve::take(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0 || bytes > bytes_) {
        return nullptr;
    }
    if (bytes < bytes_) {
        munmap(address_ + bytes, bytes_ - bytes);
    }
    bytes_ = 0;
    return std::exchange(address_, nullptr);
}

void AddressReserve::give(std::byte* address, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes <= bytes_ || is_limited() || !reserve(address, bytes)) {
        munmap(address, bytes);
        return;
    }
    if (address_ != nullptr) {
        munmap(address_, bytes_);
    }
    address_ = address;
    bytes_ = bytes;
}

}  // namespace rueda::collectives
