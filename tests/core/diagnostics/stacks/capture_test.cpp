// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// These tests take the stack of the main thread while this thread is in a system call, asleep, or inside malloc.
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>

#include "core/diagnostics/stacks/libdw.hpp"
#include "core/diagnostics/stacks/stack_signal.hpp"
#include "tests/core/diagnostics/stacks/workloads.hpp"

namespace rueda::core::test {
namespace {

struct Pipe {
    Pipe() { REQUIRE(::pipe(ends.data()) == 0); }
    ~Pipe() {
        ::close(ends[0]);
        ::close(ends[1]);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    std::array<int, 2> ends{};
};

}  // namespace

TEST_CASE("the stack of a main thread in read(2), which goes on after the signal", "[stacks]") {
    const InstalledHandler handler;
    const Pipe pipe;
    long result = 0;
    const auto texts = stacks_during([&] { result = read_one_byte(pipe.ends[0]); },
                                     [&] { REQUIRE(::write(pipe.ends[1], "x", 1) == 1); });
    CHECK(result == 1);
    INFO(texts.front());
    // The stack may be taken before the main thread has called read_one_byte(), or before the system call in this
    // function.
    CHECK(count_with(texts, "read_one_byte") >= kCaptures - 1);
    if (kHasLines && Libdw::load() != nullptr) {
        CHECK(count_with(texts, "capture_test.cpp:") >= kCaptures - 1);
    }
}

TEST_CASE("the stack of a main thread that sleeps", "[stacks]") {
    const InstalledHandler handler;
    std::atomic<bool> done{false};
    const auto texts = stacks_during([&] { sleep_until(done); }, [&] { done.store(true); });
    INFO(texts.front());
    CHECK(count_with(texts, "sleep_until") >= kCaptures - 1);
}

TEST_CASE("the stack of a main thread inside malloc and free", "[stacks]") {
    const InstalledHandler handler;
    std::atomic<bool> done{false};
    const auto texts = stacks_during([&] { allocate_until(done); }, [&] { done.store(true); });
    INFO(texts.front());
    CHECK(count_with(texts, "failed: ") == 0);
    CHECK(count_with(texts, "allocate_until") >= kCaptures / 2);
}

}  // namespace rueda::core::test
