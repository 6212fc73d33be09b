// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/files.hpp"

namespace rueda::base {

/// Whether the third-level caches of this processor belong to small groups of cores (core complexes), as in AMD's
/// processors. In other processors, all cores of a socket often share one cache. Other virtual machines may use some of
/// these cores, so a job cannot know how much of the cache is free.
[[nodiscard]] bool has_third_level_of_core_complex();

/// The sizes in bytes of the first core's caches.
struct CacheSizes {
    std::uint64_t second_level = 1024 * 1024;  ///< has this value if the kernel does not report the size
    std::uint64_t third_level = 0;             ///< the cache of the core complex; 0: do not count on this cache
    bool has_core_complexes = false;           ///< the result of has_third_level_of_core_complex()
};

/// Reads the sizes from the kernel's files under /sys, which many virtual machines do not have.
[[nodiscard]] CacheSizes cache_sizes(bool has_core_complex = has_third_level_of_core_complex(),
                                     const FileReader& read = read_small_file);

}  // namespace rueda::base
