// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stacks/stack_text.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/diagnostics/stacks/frame_names.hpp"
#include "tests/core/diagnostics/stacks/workloads.hpp"

namespace rueda::core::test {

using Lines = std::vector<std::string>;

TEST_CASE("the frames of a Python traceback", "[stacks]") {
    CHECK(parse_traceback("Stack (most recent call first):\n"
                          "  File \"/home/me/train.py\", line 12 in load\n"
                          "  File \"a \", line 3 in b.py\", line 40 in <module>\n"
                          "  ...\n") == Lines{"load, /home/me/train.py:12", "<module>, a \", line 3 in b.py:40"});
}

TEST_CASE("a damaged Python traceback gives fewer frames", "[stacks]") {
    CHECK(parse_traceback("").empty());
    CHECK(parse_traceback("\n\n").empty());
    CHECK(parse_traceback("  File \"x.py\", line many in f\n").empty());
    CHECK(parse_traceback("  File \"x.py\", line 12").empty());
    CHECK(parse_traceback("  File \"x.py line 12 in f\n").empty());
    CHECK(parse_traceback("  File \"x\x1b[2J.py\", line 1 in f") == Lines{"f, x?[2J.py:1"});
    const Lines longest = parse_traceback("  File \"x.py\", line 1 in " + std::string(10'000, 'f'));
    REQUIRE(longest.size() == 1);
    CHECK(longest.front().size() <= 200);
}

TEST_CASE("native frames as lines", "[stacks]") {
    CHECK(describe({.function = "load(int)", .file = "a.cpp", .line = 3, .module = "x"}) == "load(int), a.cpp:3");
    CHECK(describe({.function = "load", .module = "libx.so", .offset = 0x1f}) == "load+0x1f in libx.so");
    CHECK(describe({.module = "libx.so", .offset = 0x20}) == "0x20 in libx.so");
    CHECK(describe({.offset = 0x30}) == "0x30 in an unknown module");
}

TEST_CASE("frames of the Python interpreter in a row are one line", "[stacks]") {
    const NativeFrame sleep{.function = "clock_nanosleep", .module = "libc.so.6", .offset = 4};
    const NativeFrame python{.function = "time_sleep", .module = "python3.11", .offset = 1};
    const NativeFrame library{.function = "PyEval", .module = "libpython3.12.so.1.0", .offset = 2};
    const NativeFrame module{.function = "f", .module = "_native.abi3.so", .offset = 3};
    CHECK(native_lines(std::vector{sleep, python, library, library, module, python}) ==
          Lines{"clock_nanosleep+0x4 in libc.so.6", "time_sleep+0x1 in python3.11",
                "2 more frames of the Python interpreter", "f+0x3 in _native.abi3.so", "time_sleep+0x1 in python3.11"});
    CHECK(native_lines({}).empty());
}

TEST_CASE("names of addresses, with libdw and without it", "[stacks]") {
    // No inlined function begins at the first instruction of sleep_until(). So this instruction belongs to a line of
    // workloads.cpp.
    const auto inside = reinterpret_cast<std::uintptr_t>(&sleep_until) + 1;
    void* const in_libc = dlsym(RTLD_DEFAULT, "getpid");
    const std::vector<std::uintptr_t> addresses = {inside, reinterpret_cast<std::uintptr_t>(in_libc) + 1, 16};
    FrameNames without(/*with_lines=*/false);
    CHECK_FALSE(without.has_lines());
    const std::vector<NativeFrame> plain = without.names_of(addresses);
    REQUIRE(plain.size() == 3);
    CHECK(plain[0].function.find("sleep_until(") != std::string::npos);
    CHECK(plain[0].offset == 1);
    CHECK(plain[0].module == "stacks_test");
    CHECK(plain[0].line == 0);
    CHECK(plain[1].function.find("getpid") != std::string::npos);
    CHECK(plain[2].module.empty());
    FrameNames with;
    if (with.has_lines()) {
        const std::vector<NativeFrame> named = with.names_of(addresses);
        CHECK(named[0].function.find("sleep_until(") != std::string::npos);
        CHECK(named[0].file.ends_with(kHasLines ? "workloads.cpp" : ""));
        CHECK((named[0].line > 0 || !kHasLines));
        CHECK(named[2].function.empty());
    }
}

TEST_CASE("a stack is two lists, of limited length", "[stacks]") {
    RawStack stack;
    for (int i = 0; i < 40; ++i) {
        stack.traceback += "  File \"train.py\", line " + std::to_string(i) + " in load\n";
        stack.addresses.push_back(16);
    }
    stack.is_complete = false;
    FrameNames names(/*with_lines=*/false);
    const std::string text = format_stack(stack, names);
    CHECK(text.starts_with("Python, innermost first:\n  load, train.py:0\n  load, train.py:1\n"));
    CHECK(text.find("\n  load, train.py:19\n  and 20 more frames\nnative, innermost first (without files and lines") !=
          std::string::npos);
    CHECK(text.ends_with("\n  0x10 in an unknown module\n  and 17 more frames"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 20 + 1 + 24 + 1);
    stack.traceback.clear();
    CHECK(format_stack(stack, names).starts_with("native, innermost first"));
}

}  // namespace rueda::core::test
