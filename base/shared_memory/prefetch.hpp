// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::base {

/// Begins to take the cache line of `address` away from all other cores, to be written here soon. Changes nothing that
/// a program sees, and does not wait; a wrong address is ignored.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
    // The builtin fetches to read unless all CPUs that the program is compiled for have prefetchw; the line would cross
    // twice. CPUs without it take the instruction as none (Intel SDM volume 2, PREFETCHW).
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

}  // namespace rueda::base
