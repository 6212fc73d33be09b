// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/cores.hpp"

#include <sched.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/system/control_groups.hpp"
#include "tests/base/given_files.hpp"

namespace rueda::base {

namespace {

using Files = std::map<std::string, std::string>;

constexpr const char* kUnifiedMount =
    "25 30 0:23 / /proc rw,nosuid shared:5 - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

}  // namespace

TEST_CASE("version 2: the tightest group on the way up counts", "[cores]") {
    Files files = {{"/proc/self/mountinfo", kUnifiedMount},
                   {"/proc/self/cgroup", "0::/user.slice/job.scope\n"},
                   {"/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n"},
                   {"/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"}};
    CHECK(usable_cores(reader_of(files), 8) == 1.5);
    CHECK(usable_cores(reader_of(files), 1) == 1.0);
    files["/sys/fs/cgroup/user.slice/job.scope/cpu.max"] = "50000 100000\n";
    CHECK(usable_cores(reader_of(files), 8) == 0.5);
    files["/sys/fs/cgroup/user.slice/job.scope/cpu.max"] = "400000 100000\n";
    CHECK(usable_cores(reader_of(files), 8) == 1.5);
}

TEST_CASE("version 1: the controller's own mount, also together with version 2", "[cores]") {
    const Files files = {
        {"/proc/self/mountinfo",
         "40 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
         "41 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
         "42 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
        {"/proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/job/step\n0::/job\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n"},
        {"/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"},
        {"/sys/fs/cgroup/cpuset/other/cpu.cfs_quota_us", "1000\n"},
        {"/sys/fs/cgroup/cpuset/other/cpu.cfs_period_us", "100000\n"}};
    CHECK(usable_cores(reader_of(files), 16) == 2.5);
    CHECK(usable_cores(reader_of(files), 2) == 2.0);
}

TEST_CASE("a container sees its own part of the hierarchy at the mount point", "[cores]") {
    Files files = {{"/proc/self/mountinfo", "50 1 0:30 /docker/abc /my\\040groups ro,nosuid - cgroup2 cgroup rw\n"},
                   {"/proc/self/cgroup", "0::/docker/abc/worker\n"},
                   {"/my groups/worker/cpu.max", "300000 100000\n"},
                   {"/my groups/cpu.max", "200000 100000\n"}};
    const ControlGroupFolders folders = control_group_folders(reader_of(files), "cpu");
    CHECK(folders.version2 == std::vector<std::string>{"/my groups/worker", "/my groups"});
    CHECK(usable_cores(reader_of(files), 8) == 2.0);

    // The mounted file system shows only its own control group, but the process belongs to another group. So only the
    // mounted group's limits can be read.
    for (const char* elsewhere : {"0::/docker/abcdef\n", "0::/../outside\n", "0::/\n"}) {
        CAPTURE(elsewhere);
        files["/proc/self/cgroup"] = elsewhere;
        CHECK(control_group_folders(reader_of(files), "cpu").version2 == std::vector<std::string>{"/my groups"});
    }
}

TEST_CASE("nonsense in the files limits nothing", "[cores]") {
    CHECK(usable_cores(reader_of({}), 3) == 3.0);
    CHECK(usable_cores(
              reader_of({{"/proc/self/mountinfo", "rubbish\n1 2 3 - \n"}, {"/proc/self/cgroup", "::\n0\n:\n"}}), 3) ==
          3.0);
    for (const char* text : {"", "100000", "0 100000", "1000 0", "-5 100000", "a b", "1 2 3"}) {
        CAPTURE(text);
        CHECK(usable_cores(reader_of({{"/proc/self/mountinfo", kUnifiedMount},
                                      {"/proc/self/cgroup", "0::/\n"},
                                      {"/sys/fs/cgroup/cpu.max", text}}),
                           3) == 3.0);
    }
}

TEST_CASE("this process has between nothing and its mask of cores", "[cores]") {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    REQUIRE(sched_getaffinity(0, sizeof(mask), &mask) == 0);
    CHECK(affinity_cores() == static_cast<std::uint32_t>(CPU_COUNT(&mask)));
    CHECK(usable_cores() > 0);
    CHECK(usable_cores() <= CPU_COUNT(&mask));
}

}  // namespace rueda::base
