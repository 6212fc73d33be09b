// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/memory_limits.hpp"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "tests/base/given_files.hpp"

namespace rueda::base {

namespace {

using Files = std::map<std::string, std::string>;

constexpr std::uint64_t kMega = 1048576;

// Simulates a machine with 1 GiB of available memory. The job's control group allows 256 MiB and uses 200 MiB. Its
// parent group, the slice, allows 512 MiB.
Files unified_machine() {
    return {{"/proc/meminfo", "MemTotal:       8388608 kB\nMemFree:          65536 kB\nMemAvailable:    1048576 kB\n"},
            {"/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
            {"/proc/self/cgroup", "0::/slice/job\n"},
            {"/proc/self/status", "Name:\ttest\nVmPeak:\t  999999 kB\nVmSize:\t  102400 kB\n"},
            {"/sys/fs/cgroup/slice/job/memory.max", "268435456\n"},
            {"/sys/fs/cgroup/slice/job/memory.current", "209715200\n"},
            {"/sys/fs/cgroup/slice/memory.max", "536870912\n"},
            {"/sys/fs/cgroup/slice/memory.current", "209715200\n"}};
}

MemoryLimits limits_of(const Files& files, std::uint64_t address_space = MemoryLimits::kUnlimited) {
    const Result<MemoryLimits> limits = read_memory_limits(reader_of(files), address_space);
    INFO(limits.status().message());
    REQUIRE(limits.is_ok());
    return limits.value();
}

}  // namespace

TEST_CASE("version 2: the smallest rest counts, and is named", "[memory]") {
    Files files = unified_machine();
    CHECK(limits_of(files).available_bytes == 56 * kMega);
    CHECK(limits_of(files).available_source == "/sys/fs/cgroup/slice/job/memory.max");

    files["/sys/fs/cgroup/slice/job/memory.max"] = "max\n";
    CHECK(limits_of(files).available_bytes == 312 * kMega);
    CHECK(limits_of(files).available_source == "/sys/fs/cgroup/slice/memory.max");

    files["/sys/fs/cgroup/slice/memory.max"] = "max\n";
    CHECK(limits_of(files).available_bytes == 1024 * kMega);
    CHECK(limits_of(files).available_source == "/proc/meminfo");
}

TEST_CASE("the page cache counts as free, a group above its limit has nothing", "[memory]") {
    Files files = unified_machine();
    // The group has 157 MiB of file pages. 27 MiB of them are shared memory, which the kernel cannot reclaim.
    files["/sys/fs/cgroup/slice/job/memory.stat"] =
        "anon 1\nfile 164626432\nshmem 28311552\ninactive_anon 28311552\ninactive_file 104857600\n"
        "active_file 31457280\n";
    CHECK(limits_of(files).available_bytes == 186 * kMega);
    files["/sys/fs/cgroup/slice/job/memory.stat"] = "inactive_file 104857600\n";
    CHECK(limits_of(files).available_bytes == 156 * kMega);
    files["/sys/fs/cgroup/slice/job/memory.stat"] = "active_file 31457280\n";
    CHECK(limits_of(files).available_bytes == 86 * kMega);
    files["/sys/fs/cgroup/slice/job/memory.current"] = "999999999999\n";
    CHECK(limits_of(files).available_bytes == 0);
}

TEST_CASE("version 1 limits too, and its number for unlimited does not", "[memory]") {
    Files files = {{"/proc/meminfo", "MemAvailable: 1048576 kB\n"},
                   {"/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"},
                   {"/proc/self/cgroup", "4:memory:/job\n"},
                   {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600\n"},
                   {"/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "62914560\n"},
                   {"/sys/fs/cgroup/memory/job/memory.stat",
                    "inactive_file 1\nactive_file 2\ntotal_inactive_file 10485760\ntotal_active_file 5242880\n"},
                   {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                   {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "62914560\n"}};
    CHECK(limits_of(files).available_bytes == 55 * kMega);
    files["/sys/fs/cgroup/memory/job/memory.limit_in_bytes"] = "9223372036854771712\n";
    CHECK(limits_of(files).available_bytes == 1024 * kMega);
}

TEST_CASE("the address space is what the limit leaves", "[memory]") {
    const Files files = unified_machine();
    CHECK(limits_of(files).address_space_left_bytes == MemoryLimits::kUnlimited);
    CHECK(limits_of(files, 300 * kMega).address_space_left_bytes == 200 * kMega);
    CHECK(limits_of(files, 50 * kMega).address_space_left_bytes == 0);
}

TEST_CASE("a system without information is reported as such", "[memory]") {
    const Result<MemoryLimits> limits = read_memory_limits(reader_of({}), MemoryLimits::kUnlimited);
    REQUIRE_FALSE(limits.is_ok());
    CHECK(limits.status().code() == ErrorCode::unsupported);
    CHECK(read_memory_limits(reader_of({{"/proc/meminfo", "MemAvailable: lots kB\n"}}), MemoryLimits::kUnlimited)
              .status()
              .code() == ErrorCode::unsupported);
}

TEST_CASE("too little memory is an error with both numbers, the limit and the remedy", "[memory]") {
    const MemoryLimits group = limits_of(unified_machine(), 110 * kMega);
    CHECK(check_memory(group, 10 * kMega, "the arena").is_ok());
    const Status space = check_memory(group, 10 * kMega + 1, "the arena");
    CHECK(space.code() == ErrorCode::resource_exhausted);
    CHECK(space.message() ==
          "the arena needs 10 MiB of address space, but the limit of this process (ulimit -v) leaves 10 MiB; raise it");
    const Status memory = check_memory(group, 57 * kMega, "the arena");
    CHECK(memory.code() == ErrorCode::resource_exhausted);
    CHECK(memory.message() ==
          "the arena needs 57 MiB of memory, but /sys/fs/cgroup/slice/job/memory.max leaves 56 MiB; raise the memory "
          "limit of the container or job, or use fewer processes");

    Files files = unified_machine();
    files.erase("/proc/self/cgroup");
    CHECK(check_memory(limits_of(files), 1024 * kMega, "it").is_ok());
    CHECK(check_memory(limits_of(files), 2048 * kMega, "it").message() ==
          "it needs 2 GiB of memory, but /proc/meminfo leaves 1 GiB; use fewer processes per host, smaller tensors, or "
          "a machine with more memory");
}

TEST_CASE("on this machine a byte fits and an exabyte does not", "[memory]") {
    CHECK(check_memory(1, "a byte").is_ok());
    CHECK(check_memory(std::uint64_t{1} << 60, "an exabyte").code() == ErrorCode::resource_exhausted);
}

TEST_CASE("a limit on this process' address space is seen", "[memory]") {
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    // The limit must be far above the memory in use: other allocations of the test must succeed, and sanitizers map
    // terabytes.
    rlimit limited = before;
    limited.rlim_cur = before.rlim_max == RLIM_INFINITY ? rlim_t{1} << 50 : before.rlim_max;
    REQUIRE(setrlimit(RLIMIT_AS, &limited) == 0);
    const Result<MemoryLimits> limits = read_memory_limits();
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    REQUIRE(limits.is_ok());
    CHECK(limits.value().address_space_left_bytes > 0);
    CHECK(limits.value().address_space_left_bytes < limited.rlim_cur);
}

}  // namespace rueda::base
