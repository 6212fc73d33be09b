// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/process_state.hpp"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "base/system/process_status.hpp"
#include "tests/support/child.hpp"

namespace rueda::core {
namespace {

TEST_CASE("the tracer of a process is read from its status") {
    CHECK(parse_tracer("Name:\tpython\nTracerPid:\t4711\nUid:\t0\n") == 4711);
    CHECK(parse_tracer("Name:\tpython\nTracerPid:\t0\n") == 0);
    // The name of a program may contain any text except a line break.
    CHECK(parse_tracer("Name:\tTracerPid:\t5\nTracerPid:\t6\n") == 6);
    for (const char* text : {"", "Name:\tpython\n", "Name:\tx\nTracerPid:", "Name:\tx\nTracerPid:\tmany\n",
                             "Name:\tx\nTracerPid:\t-3\n", "Name:\tx\nTracerPid:\t99999999999999\n"}) {
        INFO(text);
        CHECK(parse_tracer(text) == 0);
    }
}

TEST_CASE("what a real process is doing") {
    tests::Child child;
    const pid_t pid = child.pid();
    const std::uint64_t start = base::process_start_time(pid);
    CHECK(describe_process(pid, 0).empty());
    // A different start time means that another process has this number now.
    CHECK(describe_process(pid, start + 1) == "gone");
    child.stop();
    CHECK(describe_process(pid, start) == "stopped by a signal");
    child.resume();
    if (ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0) {
        int status = 0;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK(describe_process(pid, start).starts_with("stopped by a debugger ("));
        CHECK(describe_process(pid, start).ends_with(", pid " + std::to_string(getpid()) + ")"));
        REQUIRE(ptrace(PTRACE_DETACH, pid, nullptr, nullptr) == 0);
    } else {
        CHECK(errno == EPERM);  // containers may forbid ptrace
    }
    child.kill_without_reaping();
    CHECK(describe_process(pid, start) == "ended");
    child.kill_and_reap();
    CHECK(describe_process(pid, start) == "gone");
}

}  // namespace
}  // namespace rueda::core
