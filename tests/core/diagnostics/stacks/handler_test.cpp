// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests which signal the stack handler uses, and how it coexists with handlers that the program installs.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/unique_fd.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "tests/core/diagnostics/stacks/workloads.hpp"

namespace rueda::core::test {
namespace {

std::atomic<int> calls{0};
int traceback_descriptor = -1;

void handle(int /*number*/) { calls.fetch_add(1); }

/// Writes a Python traceback as an interpreter's signal handler does.
void write_traceback(int /*number*/) {
    constexpr std::string_view kText = "Stack (most recent call first):\n  File \"train.py\", line 12 in load\n";
    static_cast<void>(!::write(traceback_descriptor, kText.data(), kText.size()));
}

std::atomic<bool> was_requested{false};

void look_for_request(int /*number*/) { was_requested.store(take_print_request()); }

void (*handler_of(int number))(int) {
    struct sigaction found {};
    sigaction(number, nullptr, &found);
    return found.sa_handler;
}

/// Captures the stack from another thread, because capture_main_thread() must not run in the main thread.
Result<RawStack> capture() {
    Result<RawStack> stack = Status(ErrorCode::internal, "not captured");
    std::atomic<bool> done{false};
    std::thread capturing([&] {
        stack = capture_main_thread(std::chrono::seconds(20));
        done.store(true);
    });
    sleep_until(done);
    capturing.join();
    return stack;
}

}  // namespace

TEST_CASE("a handler of the program is left alone", "[stacks]") {
    ::signal(SIGUSR2, &handle);
    CHECK_FALSE(install_stack_handler(SIGUSR2));
    CHECK(stack_signal() == 0);
    CHECK(handler_of(SIGUSR2) == &handle);
    ::signal(SIGUSR2, SIG_IGN);
    CHECK_FALSE(install_stack_handler(SIGUSR2));
    ::signal(SIGUSR2, SIG_DFL);
    // A program that receives SIGUSR2 with sigwait() blocks this signal, so Rueda must not use it.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    CHECK_FALSE(install_stack_handler(SIGUSR2));
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

TEST_CASE("a handler that the program installs later gets no signal of a capture", "[stacks]") {
    const InstalledHandler handler;
    CHECK(stack_signal() == SIGUSR2);
    ::signal(SIGUSR2, &handle);
    const int before = calls.load();
    const Result<RawStack> stack = capture();
    CHECK(stack.status().code() == ErrorCode::unsupported);
    CHECK(calls.load() == before);
    remove_stack_handler();
    CHECK(handler_of(SIGUSR2) == &handle);
    ::signal(SIGUSR2, SIG_DFL);
}

TEST_CASE("the default action is restored", "[stacks]") {
    { const InstalledHandler handler; }
    CHECK(handler_of(SIGUSR2) == SIG_DFL);
    CHECK(stack_signal() == 0);
}

TEST_CASE("a signal from another process asks for a print, a capture does not", "[stacks]") {
    const InstalledHandler handler;
    CHECK_FALSE(take_print_request());
    REQUIRE(capture().is_ok());
    CHECK_FALSE(take_print_request());
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        // In a forked child the stack handler does nothing, so this signal must not end the child.
        ::kill(::getpid(), SIGUSR2);
        _exit(::kill(::getppid(), SIGUSR2) == 0 ? 0 : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    CHECK(status == 0);
    CHECK(take_print_request());
    CHECK_FALSE(take_print_request());
}

TEST_CASE("a main thread that blocks the signal is given up, and captured later", "[stacks]") {
    const InstalledHandler handler;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    Result<RawStack> stack = Status(ErrorCode::internal, "not captured");
    std::thread capturing([&] { stack = capture_main_thread(std::chrono::milliseconds(50)); });
    capturing.join();
    CHECK(stack.status().code() == ErrorCode::timeout);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // the pending signal is delivered here
    CHECK_FALSE(take_print_request());
    CHECK(capture().is_ok());
}

TEST_CASE("an interpreter's handler is called by ours, and its text is taken", "[stacks]") {
    const InstalledHandler handler;
    const base::UniqueFd file(memfd_create("traceback", MFD_CLOEXEC));
    traceback_descriptor = file.value();
    CHECK(adopt_traceback_handler(file.value()).code() == ErrorCode::unsupported);  // the program has no handler yet
    ::signal(SIGUSR2, &write_traceback);
    REQUIRE(adopt_traceback_handler(file.value()).is_ok());
    CHECK(handler_of(SIGUSR2) != &write_traceback);
    for (int i = 0; i < 2; ++i) {
        const Result<RawStack> stack = capture();
        REQUIRE(stack.is_ok());
        CHECK(stack.value().traceback == "Stack (most recent call first):\n  File \"train.py\", line 12 in load\n");
        CHECK_FALSE(stack.value().addresses.empty());
    }
    REQUIRE(adopt_traceback_handler(-1).is_ok());
    const Result<RawStack> without = capture();
    REQUIRE(without.is_ok());
    CHECK(without.value().traceback.empty());
    // A later job in the same process can use the same handler.
    REQUIRE(adopt_traceback_handler(file.value()).is_ok());
    const Result<RawStack> again = capture();
    REQUIRE(again.is_ok());
    CHECK_FALSE(again.value().traceback.empty());
    REQUIRE(adopt_traceback_handler(-1).is_ok());
}

/// A print request leads to a capture of the stack, and the capture empties the file of the traceback. So the request
/// may come only after the interpreter's handler has written its text to the file.
TEST_CASE("a print is requested only when an interpreter's handler has written its text", "[stacks]") {
    const InstalledHandler handler;
    const base::UniqueFd file(memfd_create("traceback", MFD_CLOEXEC));
    ::signal(SIGUSR2, &look_for_request);
    REQUIRE(adopt_traceback_handler(file.value()).is_ok());
    ::kill(::getpid(), SIGUSR2);  // the handler cannot distinguish this signal from one that a user sends
    CHECK_FALSE(was_requested.load());
    CHECK(take_print_request());
    REQUIRE(adopt_traceback_handler(-1).is_ok());
}

}  // namespace rueda::core::test
