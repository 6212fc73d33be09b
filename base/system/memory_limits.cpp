// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/memory_limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "base/numbers.hpp"
#include "base/system/control_groups.hpp"
#include "base/text.hpp"

namespace rueda::base {

namespace {

constexpr std::uint64_t kKibibyte = 1024;

std::uint64_t less(std::uint64_t limit, std::uint64_t used) { return limit > used ? limit - used : 0; }

std::optional<std::uint64_t> read_number(const FileReader& read, const std::string& path) {
    return parse_integer<std::uint64_t>(read_word(read, path).value_or(""));
}

/// The names of the memory files of one version of control groups, and the names of keys in its file memory.stat.
struct MemoryFiles {
    const char* limit;
    const char* usage;
    const char* inactive_cache_key;  ///< key in memory.stat
    const char* active_cache_key;
};
constexpr MemoryFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};
constexpr MemoryFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file", "active_file"};

void apply(MemoryLimits& limits, std::uint64_t available, const std::string& source) {
    if (available < limits.available_bytes) {
        limits.available_bytes = available;
        limits.available_source = source;
    }
}

void apply_group(MemoryLimits& limits, const FileReader& read, const std::string& folder, const MemoryFiles& files) {
    // Both versions of control groups can say that there is no limit. Version 2 writes "max", which is not a number.
    // Version 1 writes a number that is larger than any machine's memory.
    const auto limit = read_number(read, folder + files.limit);
    const auto usage = read_number(read, folder + files.usage);
    if (limit && usage) {
        const std::string statistics = read(folder + "/memory.stat").value_or("");
        // The page cache counts as free, because the kernel drops it when a process needs memory. The kernel drops even
        // active pages, that is, pages that were read at least twice, such as those of a data set. (Memory that ranks
        // share is anonymous memory, so it is not in the page cache.)
        const std::uint64_t cache = find_number(statistics, files.inactive_cache_key).value_or(0) +
                                    find_number(statistics, files.active_cache_key).value_or(0);
        apply(limits, less(*limit, less(*usage, cache)), folder + files.limit);
    }
}

std::uint64_t address_space_limit() {
    rlimit limit{};
    const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited ? limit.rlim_cur : MemoryLimits::kUnlimited;
}

const char* remedy(const std::string& source) {
    return source == "/proc/meminfo" ? "use fewer processes per host, smaller tensors, or a machine with more memory"
                                     : "raise the memory limit of the container or job, or use fewer processes";
}

}  // namespace

Result<MemoryLimits> read_memory_limits(const FileReader& read, std::uint64_t address_space_limit_bytes) {
    MemoryLimits limits;
    const std::string machine = read("/proc/meminfo").value_or("");
    if (const auto kibibytes = find_number(machine, "MemAvailable")) {
        apply(limits, *kibibytes * kKibibyte, "/proc/meminfo");
    }
    const ControlGroupFolders folders = control_group_folders(read, "memory");
    for (const std::string& folder : folders.version1) {
        apply_group(limits, read, folder, kVersion1);
    }
    for (const std::string& folder : folders.version2) {
        apply_group(limits, read, folder, kVersion2);
    }
    if (address_space_limit_bytes != MemoryLimits::kUnlimited) {
        const std::string process = read("/proc/self/status").value_or("");
        const std::uint64_t mapped = find_number(process, "VmSize").value_or(0) * kKibibyte;
        limits.address_space_left_bytes = less(address_space_limit_bytes, mapped);
    }
    if (limits.available_source.empty() && limits.address_space_left_bytes == MemoryLimits::kUnlimited) {
        return failure(ErrorCode::unsupported,
                       "/proc/meminfo has no line MemAvailable and no control group limits the memory; mount /proc to "
                       "let memory be checked before it is used");
    }
    return limits;
}

Result<MemoryLimits> read_memory_limits() { return read_memory_limits(read_small_file, address_space_limit()); }

Status check_memory(const MemoryLimits& limits, std::uint64_t needed_bytes, std::string_view what) {
    if (needed_bytes > limits.available_bytes) {
        return failure(ErrorCode::resource_exhausted, "{} needs {} of memory, but {} leaves {}; {}", what,
                       format_bytes(needed_bytes), limits.available_source, format_bytes(limits.available_bytes),
                       remedy(limits.available_source));
    }
    if (needed_bytes > limits.address_space_left_bytes) {
        return failure(ErrorCode::resource_exhausted,
                       "{} needs {} of address space, but the limit of this process (ulimit -v) leaves {}; raise it",
                       what, format_bytes(needed_bytes), format_bytes(limits.address_space_left_bytes));
    }
    return {};
}

Status check_memory(std::uint64_t needed_bytes, std::string_view what) {
    const Result<MemoryLimits> limits = read_memory_limits();
    return limits.is_ok() ? check_memory(limits.value(), needed_bytes, what) : Status();
}

}  // namespace rueda::base
