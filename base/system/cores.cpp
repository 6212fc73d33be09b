// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/numbers.hpp"
#include "base/system/control_groups.hpp"

namespace rueda::base {

namespace {

// An upper limit for the size of the affinity mask. The mask has a bit for each core that the kernel could support.
// Distributions today have NR_CPUS = 8192.
constexpr std::size_t kMostCores = 1 << 20;

/// Converts a quota (microseconds of CPU time per period) to a number of cores. Returns nothing if there is no limit
/// ("max" or -1), or if the numbers are not plausible.
std::optional<double> quota_cores(std::string_view quota, std::string_view period) {
    const auto allowed = parse_integer<std::int64_t>(quota);
    const auto of = parse_integer<std::int64_t>(period);
    if (!allowed || !of || *allowed <= 0 || *of <= 0) {
        return std::nullopt;
    }
    return static_cast<double>(*allowed) / static_cast<double>(*of);
}

std::optional<double> quota_of_version1(const FileReader& read, const std::string& folder) {
    return quota_cores(read_word(read, folder + "/cpu.cfs_quota_us").value_or(""),
                       read_word(read, folder + "/cpu.cfs_period_us").value_or(""));
}

std::optional<double> quota_of_version2(const FileReader& read, const std::string& folder) {
    const std::string text = read(folder + "/cpu.max").value_or("");
    const std::vector<std::string_view> words = split(text, " \t\n");
    return words.size() == 2 ? quota_cores(words[0], words[1]) : std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> affinity_cores_of(pid_t process) {
    for (std::size_t most = 1024; most <= kMostCores; most *= 2) {
        std::vector<cpu_set_t> mask(most / CPU_SETSIZE);
        const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
        if (sched_getaffinity(process, bytes, mask.data()) == 0) {
            return static_cast<std::uint32_t>(std::max(CPU_COUNT_S(bytes, mask.data()), 1));
        }
        if (errno != EINVAL) {
            break;
        }
    }
    return std::nullopt;
}

std::uint32_t affinity_cores() {
    return affinity_cores_of(0).value_or(std::max(std::thread::hardware_concurrency(), 1U));
}

double usable_cores(const FileReader& read, std::uint32_t cores_in_mask) {
    auto cores = static_cast<double>(cores_in_mask);
    const ControlGroupFolders folders = control_group_folders(read, "cpu");
    for (const std::string& folder : folders.version1) {
        cores = std::min(cores, quota_of_version1(read, folder).value_or(cores));
    }
    for (const std::string& folder : folders.version2) {
        cores = std::min(cores, quota_of_version2(read, folder).value_or(cores));
    }
    return cores;
}

double usable_cores() { return usable_cores(read_small_file, affinity_cores()); }

}  // namespace rueda::base
