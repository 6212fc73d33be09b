// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::base {

/// Starts to load the cache line of `address` in order to write it, so that a later write is fast. The function does
/// not wait and changes no memory. A wrong address does no harm.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
    // The instruction prefetchw requests the line for writing. The compiler's builtin uses this instruction only if all
    // CPUs that the program is compiled for have it. Otherwise the builtin requests the line only for reading, and the
    // later write must request the line a second time. CPUs without prefetchw ignore the instruction (Intel SDM volume
    // 2, PREFETCHW).
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

}  // namespace rueda::base
