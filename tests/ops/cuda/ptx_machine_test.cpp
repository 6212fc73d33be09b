// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Tests that the machine that executes PTX finds the errors for which it was written.
#include "ptx_machine.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

namespace rueda::ops::cuda::test {
namespace {

/// A kernel whose parameter is an address.
std::string kernel_with(const std::string& statements) {
    return ".version 6.4\n.target sm_75\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"
           "\t.reg .b64 %rd<9>;\n\tld.param.u64 %rd1, [k_param_0];\n" +
           statements + "\tret;\n}\n";
}

template <class T>
void run(const std::string& text, T* memory, Dimensions grid = {}, Dimensions block = {}) {
    PtxMachine(text).run("k", grid, block, &memory, sizeof(memory));
}

}  // namespace

TEST_CASE("the machine executes each thread of each block, with loops and predicates", "[unit]") {
    // Thread t of block b stores the sum 1 + 2 + … + (4 b + t) in its own element.
    const std::string text = kernel_with(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
        "mul.lo.s32 %r4, %r1, %r2; add.s32 %r4, %r4, %r3;\n"
        "mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; mov.u32 %r5, 0;\n"
        "$L__more:\n"
        "setp.eq.s32 %p1, %r4, 0; @%p1 bra $L__end;\n"
        "add.s32 %r5, %r5, %r4; add.s32 %r4, %r4, -1; bra.uni $L__more;\n"
        "$L__end:\n"
        "{ .reg .u64 at; cvta.to.global.u64 at, %rd3; st.global.u32 [at], %r5; }\n");
    std::array<std::uint32_t, 8> sums{};
    run(text, sums.data(), {2, 1, 1}, {4, 1, 1});
    CHECK(sums == std::array<std::uint32_t, 8>{0, 1, 3, 6, 10, 15, 21, 28});
}

TEST_CASE("the machine computes like a GPU where this differs from a CPU", "[unit]") {
    const std::string text = kernel_with(
        "ld.global.f64 %fd1, [%rd1]; cvt.rzi.u16.f64 %rs1, %fd1; st.global.u16 [%rd1], %rs1;\n"
        "mov.f32 %f1, 0f7F800000; mov.f32 %f2, 0fFF800000; add.rn.f32 %f3, %f1, %f2; st.global.f32 [%rd1+4], %f3;\n"
        "mov.u32 %r1, 287454020; prmt.b32 %r2, %r1, 0, 4865; st.global.u32 [%rd1+8], %r2;\n"
        "mov.u32 %r3, 1; shl.b32 %r4, %r3, 40; st.global.u32 [%rd1+12], %r4;\n");
    struct alignas(8) {
        double number = 70000.9;
        std::uint32_t more[2] = {7, 7};
    } memory;
    run(text, &memory);
    std::uint32_t words[4];
    std::memcpy(words, &memory, sizeof(words));
    CHECK((words[0] & 0xFFFFU) == 65535);  // limited to the type
    CHECK(words[1] == 0x7FFFFFFFU);        // the only NaN of float32
    CHECK(words[2] == 0x33114433U);        // bytes 1, 0, 3, 1 of 0x11223344
    CHECK(words[3] == 0);                  // a shift beyond the type
}

TEST_CASE("the machine refuses misaligned addresses and unknown instructions", "[unit]") {
    alignas(16) std::array<std::uint32_t, 8> memory{};
    const std::string vector = kernel_with("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+4];\n");
    CHECK_THROWS_WITH(run(vector, memory.data()), Catch::Matchers::Contains("misaligned address: ld.global.v4.u32"));
    CHECK_NOTHROW(run(vector, memory.data() + 3));
    CHECK_THROWS_WITH(run(kernel_with("fma.rn.f32 %f1, %f2, %f3, %f4;\n"), memory.data()),
                      Catch::Matchers::Contains("unknown instruction: fma.rn.f32"));
}

}  // namespace rueda::ops::cuda::test
