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

constexpr std::uint64_t kUsualCacheBytes = 1024 * 1024;

}  // namespace

std::uint64_t second_level_cache_bytes(const FileReader& read) {
    // The kernel numbers the caches of a core without gaps, so the first missing number ends the loop.
    for (int index = 0;; ++index) {
        const std::string cache = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
        const std::optional<std::string> level = read_word(read, cache + "level");
        if (!level) {
            return kUsualCacheBytes;
        }
        if (level == "2" && read_word(read, cache + "type") != "Instruction") {
            const std::uint64_t bytes = parse_bytes(read_word(read, cache + "size").value_or("")).value_or(0);
            return bytes > 0 ? bytes : kUsualCacheBytes;
        }
    }
}

}  // namespace rueda::base
