// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/soak/footprint.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace rueda::tests {
namespace {

std::uint64_t entries(const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

}  // namespace

Footprint Footprint::now() {
    ::malloc_trim(0);  // memory that free() keeps for later is not a leak
    std::map<std::string, std::uint64_t> kilobytes;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        const std::size_t colon = line.find(':');
        if (line.ends_with(" kB")) {
            kilobytes[line.substr(0, colon)] = std::stoull(line.substr(colon + 1));
        }
    }
    return {.private_bytes = kilobytes["RssAnon"] * 1024,
            .shared_bytes = kilobytes["RssShmem"] * 1024,
            .threads = entries("/proc/self/task"),
            .files = entries("/proc/self/fd")};
}

std::string Footprint::text() const {
    return fmt::format("{:.1f} MiB private, {:.1f} MiB shared, {} threads, {} files",
                       static_cast<double>(private_bytes) / 1048576, static_cast<double>(shared_bytes) / 1048576,
                       threads, files);
}

}  // namespace rueda::tests
