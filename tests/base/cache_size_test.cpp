// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/cache_size.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "tests/base/given_files.hpp"

namespace rueda::base {

namespace {

using Files = std::map<std::string, std::string>;

/// Adds a cache of the first core to the simulated system files.
void add_cache(Files& files, int index, const std::string& level, const std::string& type, const std::string& size) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    files[folder + "level"] = level + "\n";
    files[folder + "type"] = type + "\n";
    files[folder + "size"] = size + "\n";
}

std::uint64_t second_level_of(const Files& files) { return cache_sizes(true, reader_of(files)).second_level; }

}  // namespace

TEST_CASE("the second-level cache is found among the others", "[cache_size]") {
    Files files;
    add_cache(files, 0, "1", "Data", "32K");
    add_cache(files, 1, "1", "Instruction", "32K");
    add_cache(files, 2, "2", "Instruction", "1024K");
    add_cache(files, 3, "2", "Data", "256K");
    add_cache(files, 4, "3", "Unified", "32768K");
    CHECK(second_level_of(files) == 256 * 1024);
    add_cache(files, 2, "2", "Unified", "3072K");
    CHECK(second_level_of(files) == 3072 * 1024);
}

TEST_CASE("a third-level cache counts only if it belongs to a core complex", "[cache_size]") {
    Files files;
    add_cache(files, 0, "2", "Unified", "1024K");
    CHECK(cache_sizes(true, reader_of(files)).third_level == 0);
    add_cache(files, 1, "3", "Unified", "32768K");
    CHECK(cache_sizes(true, reader_of(files)).third_level == 32 * 1024 * 1024);
    CHECK(cache_sizes(true, reader_of(files)).second_level == 1024 * 1024);
    CHECK(cache_sizes(false, reader_of(files)).third_level == 0);
    CHECK(cache_sizes(true, reader_of(files)).has_core_complexes);
    CHECK_FALSE(cache_sizes(false, reader_of(files)).has_core_complexes);
    add_cache(files, 1, "3", "Unified", "393216K");  // too large for the cache of one core complex
    CHECK(cache_sizes(true, reader_of(files)).third_level == 0);
    add_cache(files, 1, "3", "Unified", "large");
    CHECK(cache_sizes(true, reader_of(files)).third_level == 0);
}

TEST_CASE("if the kernel says nothing about a second-level cache, it has a mebibyte", "[cache_size]") {
    Files files;
    CHECK(second_level_of(files) == 1048576);
    add_cache(files, 0, "1", "Data", "32K");
    CHECK(second_level_of(files) == 1048576);
    for (const std::string size : {"", "0K", "much", "-1K"}) {
        CAPTURE(size);
        add_cache(files, 1, "2", "Unified", size);
        CHECK(second_level_of(files) == 1048576);
    }
}

TEST_CASE("this machine has a second-level cache of a plausible size", "[cache_size]") {
    CHECK(cache_sizes().second_level >= 65536);
    CHECK(cache_sizes().second_level <= 1024 * 1048576);
}

}  // namespace rueda::base
