// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how the launcher reads the kernel's numbers of processes that were killed because memory ran out. The test uses
// a folder in place of the root folder of a machine.
#include "launcher/processes/oom_kills.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "launcher/watch/rank_end.hpp"
#include "launcher/watch/rank_notifications.hpp"

namespace rueda::launcher {
namespace {

constexpr const char* kMounts2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
constexpr const char* kMounts1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

/// A folder that the tested code uses in place of the root folder of a machine.
class Root {
public:
    Root() { std::filesystem::remove_all(folder_); }
    ~Root() { std::filesystem::remove_all(folder_); }
    Root(const Root&) = delete;
    Root& operator=(const Root&) = delete;

    void write(const std::string& path, const std::string& text) const {
        std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
        std::ofstream(folder_ + path) << text;
    }
    [[nodiscard]] base::FileReader reader() const {
        return [folder = folder_](const std::string& path) { return base::read_small_file(folder + path); };
    }

private:
    std::string folder_ =
        (std::filesystem::temp_directory_path() / ("rueda-oom-kills-" + std::to_string(::getpid()))).string();
};

TEST_CASE("the number of killed processes is read from lines of names and numbers", "[unit]") {
    CHECK(parse_oom_kills("low 0\nhigh 0\nmax 4\noom 9\noom_kill 3\noom_group_kill 1\n") == 3U);
    CHECK(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n") == 12U);
    CHECK(parse_oom_kills("oom_kill 18446744073709551615") == 18446744073709551615U);
    for (const char* wrong : {"", "\n", "oom_kill", "oom_kill \n", "oom_kill -1", "oom_kill 1x", "oom_kill\n3",
                              "oom_kill_disable 0\nunder_oom 1\n", "oom_kill 18446744073709551616", "oom_kills 3"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_oom_kills(wrong));
    }
}

TEST_CASE("the count of the own control group is preferred to that of the machine", "[unit]") {
    const Root root;
    CHECK(count_oom_kills(root.reader()).counted_in.empty());
    root.write("/proc/vmstat", "nr_free_pages 17\noom_kill 40\n");
    CHECK(count_oom_kills(root.reader()).counted_in == "/proc/vmstat");
    CHECK(count_oom_kills(root.reader()).processes == 40);

    root.write("/proc/self/cgroup", "4:memory:/job/step\n");
    root.write("/proc/self/mountinfo", kMounts1);
    CHECK(count_oom_kills(root.reader()).counted_in == "/proc/vmstat");
    // an outer control group, whose numbers also count processes that do not belong to the job
    root.write("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill 99\n");
    CHECK(count_oom_kills(root.reader()).counted_in == "/proc/vmstat");
    root.write("/sys/fs/cgroup/memory/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    CHECK(count_oom_kills(root.reader()).counted_in == "/sys/fs/cgroup/memory/job/step/memory.oom_control");
    CHECK(count_oom_kills(root.reader()).processes == 2);

    root.write("/proc/self/cgroup", "0::/user.slice/job\n");
    root.write("/proc/self/mountinfo", kMounts2);
    root.write("/sys/fs/cgroup/user.slice/job/memory.events", "oom_kill nonsense\n");
    CHECK(count_oom_kills(root.reader()).counted_in == "/proc/vmstat");
    root.write("/sys/fs/cgroup/user.slice/job/memory.events", "max 7\noom 1\noom_kill 5\n");
    CHECK(count_oom_kills(root.reader()).counted_in == "/sys/fs/cgroup/user.slice/job/memory.events");
    CHECK(count_oom_kills(root.reader()).processes == 5);
}

TEST_CASE("only a count that has grown is reported", "[unit]") {
    CHECK(grown({2, "/a"}, {5, "/a"}).processes == 3);
    CHECK(grown({2, "/a"}, {5, "/a"}).counted_in == "/a");
    CHECK(grown({2, "/a"}, {2, "/a"}).processes == 0);
    CHECK(grown({5, "/a"}, {2, "/a"}).processes == 0);
    CHECK(grown({2, "/a"}, {5, "/b"}).processes == 0);
    CHECK(grown({0, ""}, {5, "/a"}).processes == 0);
    CHECK(grown({0, ""}, {0, ""}).processes == 0);
}

TEST_CASE("a watch reports processes that were killed, but not those that ruedarun killed", "[unit]") {
    const Root root;
    root.write("/proc/vmstat", "oom_kill 1\n");
    OomWatch watch(root.reader());
    watch.begin();
    root.write("/proc/vmstat", "oom_kill 2\n");
    const int exited_137 = 137 << 8;  // the exit status of a shell whose last command was killed
    CHECK(watch.look(SIGKILL, false).processes == 1);
    CHECK(watch.look(exited_137, false).processes == 1);
    CHECK(watch.look(SIGKILL, true).processes == 0);
    CHECK(watch.look(SIGTERM, false).processes == 0);
    CHECK(watch.look(9 << 8, false).processes == 0);
    CHECK(watch.look(0, false).processes == 0);
}

TEST_CASE("the line about a killed rank says what the kernel did, and the other ranks are notified of it", "[unit]") {
    RankEnd end;
    end.rank = 3;
    end.pid = 4711;
    end.wait_status = SIGKILL;
    end.oom_kills = {1, "/sys/fs/cgroup/memory.events"};
    const std::string line =
        "rank 3 (pid 4711) was killed by signal 9 (Killed): the kernel ended 1 process for want of memory meanwhile "
        "(oom_kill of /sys/fs/cgroup/memory.events); raise the memory limit of the container or job, or use fewer "
        "processes a host";
    CHECK(describe(end) == line);
    const std::vector<RankNotifications::Item> items = RankNotifications().note({end});
    REQUIRE(items.size() == 1);
    CHECK(items.front().notification.find(line) != std::string::npos);
    end.oom_kills = {2, "/proc/vmstat"};
    CHECK(describe(end).find("the kernel ended 2 processes of this machine for want of memory meanwhile (oom_kill of "
                             "/proc/vmstat); use fewer processes a host") != std::string::npos);
}

}  // namespace
}  // namespace rueda::launcher
