// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

namespace rueda::base {

/// Starts to fetch the cache line of `address` from the other cores, so that this core can write it soon. It changes
/// nothing that a program can see, and does not wait. A wrong address is ignored.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
    // The builtin fetches the line for reading, unless all CPUs that the program is compiled for have prefetchw. Then
    // the line would cross twice. CPUs without the instruction ignore it (Intel SDM volume 2, PREFETCHW).
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

}  // namespace rueda::base
