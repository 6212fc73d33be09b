// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/cache_size.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/numbers.hpp"
#include "base/system/control_groups.hpp"

namespace rueda::base {

namespace {

/// Returns the size in bytes of the cache of a level ("2" or "3"), or 0 if the kernel does not report the size.
std::uint64_t bytes_of_level(const std::string& wanted, const FileReader& read) {
    // The kernel numbers the caches of a core without gaps, so the first missing number ends the loop.
    for (int index = 0;; ++index) {
        const std::string cache = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
        const std::optional<std::string> level = read_word(read, cache + "level");
        if (!level) {
            return 0;
        }
        if (level == wanted && read_word(read, cache + "type") != "Instruction") {
            return parse_bytes(read_word(read, cache + "size").value_or("")).value_or(0);
        }
    }
}

}  // namespace

bool has_third_level_of_core_complex() {
#if defined(__x86_64__)
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

CacheSizes cache_sizes(bool has_core_complex, const FileReader& read) {
    CacheSizes sizes;
    sizes.has_core_complexes = has_core_complex;
    if (const std::uint64_t bytes = bytes_of_level("2", read); bytes > 0) {
        sizes.second_level = bytes;
    }
    // In some virtual machines, the kernel reports the L3 caches of all core complexes as one cache. A size that is too
    // large for one core complex is therefore ignored.
    constexpr std::uint64_t kLargestOfCoreComplex = 128 << 20;
    const std::uint64_t third_level = has_core_complex ? bytes_of_level("3", read) : 0;
    sizes.third_level = third_level <= kLargestOfCoreComplex ? third_level : 0;
    return sizes;
}

}  // namespace rueda::base
