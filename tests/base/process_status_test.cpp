// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/process_status.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/child.hpp"

namespace rueda::base {
namespace {

// Fields are numbered as in proc(5). Fields 14 and 15 are the ticks in user and system mode. Field 20 is the number of
// threads, 22 is the start time, and 24 is the number of resident pages.
constexpr const char* kBehindCommand =
    " S 19832 19832 19093 0 -1 4194304 99 0 0 0 41 17 0 0 20 0 3 0 301434 3133440 410 18446744073709551615 1 1 0\n";

TEST_CASE("the fields of /proc/<pid>/stat are found whatever the command is called") {
    for (const char* command : {"cat", "", "a b c", ") R 1 2 3", "((", "x) S (y", "line\nbreak"}) {
        INFO(command);
        const auto status = parse_process_status("4711 (" + std::string(command) + ")" + kBehindCommand);
        REQUIRE(status);
        CHECK(status->state == 'S');
        CHECK(status->threads == 3);
        CHECK(status->start_time == 301434);
        CHECK(status->cpu_ticks == 58);
        CHECK(status->resident_pages == 410);
    }
}

TEST_CASE("text of another form is refused") {
    for (const char* text :
         {"", "4711", "4711 (cat", "4711 (cat)", "4711 (cat) S 1 2 3", "4711 (cat) Sleeping 1 2 3 4 5",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 many 0 301434 3133440",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 -2 0 301434 3133440",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 -5 3133440",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 many 0 0 0 20 0 1 0 301434 3133440 410 1",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 301434 3133440 many 1",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 301434 3133440 410",
          "4711 (cat) S 1 1 1 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 3014"}) {
        INFO(text);
        CHECK_FALSE(parse_process_status(text));
    }
}

TEST_CASE("a leader that has ended before its threads has not ended the process") {
    CHECK(ProcessStatus{'Z', 1, 5}.has_ended());
    CHECK_FALSE(ProcessStatus{'Z', 2, 5}.has_ended());
    CHECK(ProcessStatus{'X', 0, 5}.has_ended());
    CHECK_FALSE(ProcessStatus{'T', 1, 5}.has_ended());
}

TEST_CASE("the status of real processes") {
    const auto own = read_process_status(getpid());
    REQUIRE(own);
    CHECK(own->state == 'R');
    CHECK(own->threads >= 1);
    // `start_time` is counted from the boot of the machine, so it cannot be later than the time in /proc/uptime.
    double uptime = 0;
    std::ifstream("/proc/uptime") >> uptime;
    CHECK(static_cast<double>(own->start_time) <= uptime * static_cast<double>(sysconf(_SC_CLK_TCK)));
    CHECK(process_start_time(getpid()) == own->start_time);

    tests::Child child;
    const std::uint64_t start = process_start_time(child.pid());
    CHECK(start >= own->start_time);
    CHECK_FALSE(process_has_ended(child.pid(), start));
    CHECK(process_has_ended(child.pid(), start + 1));  // a process with a different start time is a different process
    child.stop();
    CHECK(read_process_status(child.pid())->state == 'T');
    CHECK_FALSE(process_has_ended(child.pid(), start));
    child.kill_without_reaping();
    CHECK(read_process_status(child.pid())->state == 'Z');
    CHECK(process_has_ended(child.pid(), start));
    const pid_t pid = child.pid();
    child.kill_and_reap();
    CHECK_FALSE(read_process_status(pid));
    CHECK(process_start_time(pid) == 0);
    CHECK(process_has_ended(pid, start));
}

TEST_CASE("process states have names") {
    CHECK(describe_process_state('R') == "running");
    CHECK(describe_process_state('S') == "sleeping");
    CHECK(describe_process_state('T') == "stopped by a signal");
    CHECK(describe_process_state('t') == "stopped by a debugger");
    CHECK(describe_process_state('Z') == "ended");
    CHECK(describe_process_state('!') == "in an unknown state");
}

}  // namespace
}  // namespace rueda::base
