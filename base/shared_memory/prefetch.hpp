// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::base {

/// Starts to load the cache line of `address` from another core, so that this core can write it soon. The function
/// changes no memory and does not wait. A wrong address is ignored.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
    // The builtin requests the line for reading only, unless all CPUs that the program is compiled for have prefetchw.
    // With such a request, the later write would have to request the line again. CPUs without prefetchw ignore the
    // instruction (Intel SDM volume 2, PREFETCHW).
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

}  // namespace rueda::base
