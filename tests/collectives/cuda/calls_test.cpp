// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/calls.hpp"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/rows.hpp"

namespace rueda::collectives::cuda {
namespace {

using Kind = NcclCall::Kind;

Segment reduction_of(DType dtype, ReduceOp op, double prescale = 1.0, double postscale = 1.0,
                     std::uint32_t uncounted = 0) {
    return {.dtype = dtype, .reduce_op = op, .prescale = prescale, .postscale = postscale, .uncounted = uncounted};
}

/// Returns a factor as a double. The factor's type determines how its bits are read.
double value_of(const NcclFactor& factor) {
    const auto half = [](std::uint64_t bits, int mantissa, int exponent) {
        const auto field = static_cast<int>(bits >> mantissa & ((1U << exponent) - 1));
        const int bias = (1 << (exponent - 1)) - 1;
        const auto low = static_cast<double>(bits & ((1U << mantissa) - 1));
        const double value = field == 0 ? std::ldexp(low, 1 - bias - mantissa)
                                        : std::ldexp(low + (1 << mantissa), field - bias - mantissa);
        return (bits >> (mantissa + exponent) & 1) != 0 ? -value : value;
    };
    switch (factor.type) {
        case kNcclFloat16:
            return half(factor.bits, 10, 5);
        case kNcclBfloat16:
            return half(factor.bits, 7, 8);
        case kNcclFloat32:
            return std::bit_cast<float>(static_cast<std::uint32_t>(factor.bits));
        default:
            return std::bit_cast<double>(factor.bits);
    }
}

TEST_CASE("NCCL's own reductions are used where they do what Rueda does", "[unit]") {
    const auto plain = [](DType dtype, ReduceOp op) {
        const auto plan = plan_reduction(reduction_of(dtype, op), 4);
        REQUIRE(plan.is_ok());
        CHECK_FALSE(plan.value().factor);
        return plan.value().reduction;
    };
    for (const DType dtype : {DType::int32, DType::uint64, DType::float16, DType::bfloat16, DType::float32,
                              DType::float64, DType::uint8, DType::int8}) {
        CHECK(plain(dtype, ReduceOp::sum) == kNcclSum);
        CHECK(plain(dtype, ReduceOp::average) == kNcclAverage);
        CHECK(plain(dtype, ReduceOp::min) == kNcclMin);
        CHECK(plain(dtype, ReduceOp::max) == kNcclMax);
        CHECK(plain(dtype, ReduceOp::product) == kNcclProduct);
    }
    CHECK(plain(DType::boolean, ReduceOp::product) == kNcclMin);
    CHECK(plain(DType::boolean, ReduceOp::max) == kNcclMax);
    CHECK(plan_reduction(reduction_of(DType::boolean, ReduceOp::min), 4).value().type == kNcclUint8);
}

TEST_CASE("factors become one multiplication before the sum", "[unit]") {
    const auto factor = [](const Segment& segment, std::uint32_t members) {
        const auto plan = plan_reduction(segment, members);
        REQUIRE(plan.is_ok());
        REQUIRE(plan.value().factor);
        CHECK(plan.value().factor->type == plan.value().type);
        return value_of(*plan.value().factor);
    };
    CHECK(factor(reduction_of(DType::float32, ReduceOp::sum, 0.5, 3.0), 4) == 1.5);
    CHECK(factor(reduction_of(DType::float64, ReduceOp::sum, -0.1), 4) == -0.1);
    CHECK(factor(reduction_of(DType::float32, ReduceOp::average, 2.0), 8) == 0.25);
    // Two of eight members have joined and are not counted.
    CHECK(factor(reduction_of(DType::float32, ReduceOp::average, 1.0, 1.0, 2), 8) == static_cast<double>(1.0F / 6.0F));
    CHECK(factor(reduction_of(DType::float32, ReduceOp::sum, 0.0), 2) == 0.0);
    CHECK(factor(reduction_of(DType::float16, ReduceOp::average, 1.0, 1.0, 1), 4) == 0.333251953125);
    CHECK(factor(reduction_of(DType::bfloat16, ReduceOp::average, 1.0, 1.0, 1), 4) == 0.333984375);
    CHECK(factor(reduction_of(DType::float16, ReduceOp::sum, std::ldexp(1.0, -24)), 4) == std::ldexp(1.0, -24));
    CHECK(factor(reduction_of(DType::float16, ReduceOp::sum, 65504.0), 4) == 65504.0);
    // A factor of 1 needs no multiplication.
    CHECK_FALSE(plan_reduction(reduction_of(DType::float32, ReduceOp::sum, 2.0, 0.5), 4).value().factor);
    CHECK_FALSE(plan_reduction(reduction_of(DType::float32, ReduceOp::average, 1.0, 1.0, 3), 4).value().factor);
}

TEST_CASE("every rounding of a factor to float32 is the processor's", "[unit]") {
    for (int i = -60; i < 60; ++i) {
        for (const double part : {1.0, 1.1, 1.4999999, 1.9999999999, 1.0 + 1.0 / (1 << 24)}) {
            const double value = std::ldexp(part, i);
            const auto plan = plan_reduction(reduction_of(DType::float32, ReduceOp::sum, value), 2);
            REQUIRE(plan.is_ok());
            if (plan.value().factor) {
                CHECK(value_of(*plan.value().factor) == static_cast<double>(static_cast<float>(value)));
            }
        }
    }
}

TEST_CASE("what NCCL cannot reduce is refused with a way out", "[unit]") {
    const auto refusal = [](const Segment& segment) {
        const auto plan = plan_reduction(segment, 4);
        CHECK(plan.status().code() == ErrorCode::unsupported);
        return plan.status().message();
    };
    const auto has = [](const std::string& text, const char* part) {
        INFO(text);
        return text.find(part) != std::string::npos;
    };
    CHECK(has(refusal(reduction_of(DType::int16, ReduceOp::sum)), "convert the tensor to int32"));
    CHECK(has(refusal(reduction_of(DType::uint16, ReduceOp::max)), "uint16"));
    CHECK(has(refusal(reduction_of(DType::float8_e4m3fn, ReduceOp::sum)), "convert the tensor to bfloat16"));
    CHECK(has(refusal(reduction_of(DType::float8_e5m2, ReduceOp::max)), "float8_e5m2"));
    CHECK(has(refusal(reduction_of(DType::int32, ReduceOp::sum, 2.0)), "integers"));
    CHECK(has(refusal(reduction_of(DType::int64, ReduceOp::average, 1.0, 1.0, 1)), "join()"));
    CHECK(has(refusal(reduction_of(DType::float32, ReduceOp::max, 2.0)), "before and after"));
    CHECK(has(refusal(reduction_of(DType::float32, ReduceOp::adasum)), "CPU"));
    CHECK(has(refusal(reduction_of(DType::boolean, ReduceOp::sum)), "bool"));
    CHECK(has(refusal(reduction_of(DType::float16, ReduceOp::sum, 1e-9)), "it becomes 0"));
    CHECK(has(refusal(reduction_of(DType::float16, ReduceOp::sum, 1e9)), "it becomes inf"));
    CHECK(has(refusal(reduction_of(DType::float32, ReduceOp::sum, NAN)), "not finite"));
    CHECK(has(refusal(reduction_of(DType::float16, ReduceOp::sum, 1.4 * std::ldexp(1.0, -24))), "in this type"));
}

/// Memory of the host that stands for device memory. The tests use only its addresses.
struct Memory {
    std::array<std::byte, 4096> input{};
    std::array<std::byte, 4096> output{};
};

CallPlan planned(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members,
                 Packing packing = Packing::off) {
    CallPlan plan;
    const Status made = plan_calls(batch, member, members, packing, plan);
    INFO(made.message());
    REQUIRE(made.is_ok());
    return plan;
}

TEST_CASE("an allreduce has one call for each tensor, and shares equal factors", "[unit]") {
    Memory memory;
    const std::array<Segment, 4> segments{{
        {.reduce_op = ReduceOp::sum,
         .prescale = 0.5,
         .count = 3,
         .input = memory.input.data(),
         .output = memory.output.data()},
        {.reduce_op = ReduceOp::sum,
         .prescale = 0.5,
         .count = 0,
         .input = memory.input.data(),
         .output = memory.output.data()},
        {.reduce_op = ReduceOp::average,
         .prescale = 1.0,
         .count = 5,
         .input = memory.input.data() + 64,
         .output = memory.output.data() + 64,
         .uncounted = 2},
        {.dtype = DType::int64,
         .reduce_op = ReduceOp::max,
         .count = 7,
         .input = memory.input.data() + 128,
         .output = memory.output.data() + 128},
    }};
    const CallPlan plan = planned({.segments = segments}, 1, 4);
    REQUIRE(plan.calls.size() == 3);  // there is no call for the tensor without elements
    CHECK(plan.factors.size() == 1);  // 0.5 and 1 / (4 - 2)
    CHECK(plan.scratch_bytes == 0);
    CHECK(plan.calls[0].kind == Kind::all_reduce);
    CHECK(plan.calls[0].factor == 0);
    CHECK(plan.calls[0].count == 3);
    CHECK(plan.calls[0].input.address == memory.input.data());
    CHECK(plan.calls[0].output.address == memory.output.data());
    CHECK(plan.calls[1].factor == 0);
    CHECK(plan.calls[2].factor == -1);
    CHECK(plan.calls[2].reduction == kNcclMax);
    CHECK(plan.calls[2].type == kNcclInt64);
}

TEST_CASE("a member that has joined contributes neutral elements from scratch memory", "[unit]") {
    const std::array<Segment, 3> segments{{
        {.reduce_op = ReduceOp::average, .count = 3, .absent = 1},
        {.dtype = DType::float16, .reduce_op = ReduceOp::product, .count = 300, .absent = 1},
        {.reduce_op = ReduceOp::sum, .count = 0, .absent = 1},
    }};
    const CallPlan plan = planned({.segments = segments}, 1, 4);
    REQUIRE(plan.calls.size() == 2);
    REQUIRE(plan.fills.size() == 2);
    CHECK(plan.scratch_bytes == 512 + 1024);
    CHECK(plan.calls[0].input.is_scratch);
    CHECK(plan.calls[0].output.is_scratch);
    CHECK(plan.calls[1].input.offset == 512);
    CHECK(plan.calls[1].output.offset == 512);
    CHECK(plan.fills[1].offset == 512);
    CHECK(plan.fills[1].bytes == 600);
    CHECK(plan.fills[1].op == ReduceOp::product);
}

TEST_CASE("an allgather of equal rows is one call; other rows are broadcasts in order", "[unit]") {
    Memory memory;
    const Segment segment{
        .dtype = DType::int16, .count = 5, .input = memory.input.data(), .output = memory.output.data()};
    const std::array<std::int64_t, 3> equal{2, 2, 2};
    const CallPlan one = planned({.operation = Operation::allgather, .segments = {&segment, 1}, .rows = equal}, 2, 3);
    REQUIRE(one.calls.size() == 1);
    CHECK(one.calls[0].kind == Kind::all_gather);
    CHECK(one.calls[0].count == 20);
    CHECK(one.calls[0].type == kNcclUint8);

    const std::array<std::int64_t, 3> different{1, 0, 3};
    const CallPlan several =
        planned({.operation = Operation::allgather, .segments = {&segment, 1}, .rows = different}, 2, 3);
    REQUIRE(several.calls.size() == 2);
    CHECK(several.calls[0].kind == Kind::broadcast);
    CHECK(several.calls[0].peer == 0);
    CHECK(several.calls[0].count == 10);
    CHECK(several.calls[0].output.address == memory.output.data());
    CHECK(several.calls[1].peer == 2);
    CHECK(several.calls[1].count == 30);
    CHECK(several.calls[1].input.address == memory.input.data());
    CHECK(several.calls[1].output.address == memory.output.data() + 10);

    const Segment no_output{.dtype = DType::int16, .count = 5, .input = memory.input.data()};
    const CallPlan dropped =
        planned({.operation = Operation::allgather, .segments = {&no_output, 1}, .rows = different}, 2, 3);
    CHECK(dropped.scratch_bytes == 512);
    CHECK(dropped.calls[1].output.is_scratch);
    CHECK(dropped.calls[1].output.offset == 10);
}

TEST_CASE("a reducescatter of equal shares is one call; other shares are reduces", "[unit]") {
    Memory memory;
    const Segment segment{.count = 2, .input = memory.input.data(), .output = memory.output.data()};
    const std::array<std::int64_t, 3> six{6, 6, 6};
    const CallPlan one = planned({.operation = Operation::reducescatter, .segments = {&segment, 1}, .rows = six}, 1, 3);
    REQUIRE(one.calls.size() == 1);
    CHECK(one.calls[0].kind == Kind::reduce_scatter);
    CHECK(one.calls[0].count == 4);
    const std::array<std::int64_t, 3> two{2, 2, 2};
    const CallPlan several =
        planned({.operation = Operation::reducescatter, .segments = {&segment, 1}, .rows = two}, 1, 3);
    REQUIRE(several.calls.size() == 2);  // the third member gets no row, so there is no reduce for this member
    CHECK(several.calls[0].kind == Kind::reduce);
    CHECK(several.calls[0].peer == 0);
    CHECK(several.calls[0].output.address == nullptr);
    CHECK(several.calls[1].input.address == memory.input.data() + 8);
    CHECK(several.calls[1].output.address == memory.output.data());
}

TEST_CASE("an exchange sends, receives, and copies this rank's own part", "[unit]") {
    Memory memory;
    const Segment segment{
        .dtype = DType::uint16, .count = 3, .input = memory.input.data(), .output = memory.output.data()};
    const std::array<std::int64_t, 6> splits{1, 2, 0, 4, 2, 1};
    const CallPlan plan =
        planned({.operation = Operation::alltoall, .segments = {&segment, 1}, .splits = splits}, 1, 3);
    REQUIRE(plan.calls.size() == 3);
    CHECK(plan.calls[0].kind == Kind::send);
    CHECK(plan.calls[0].peer == 0);
    CHECK(plan.calls[0].count == 6);
    CHECK(plan.calls[1].kind == Kind::receive);
    CHECK(plan.calls[1].count == 24);
    CHECK(plan.calls[1].output.address == memory.output.data());
    CHECK(plan.calls[2].kind == Kind::receive);
    CHECK(plan.calls[2].peer == 2);
    CHECK(plan.calls[2].output.address == memory.output.data() + 36);
    REQUIRE(plan.copies.size() == 1);
    CHECK(plan.copies[0].from == memory.input.data() + 6);
    CHECK(plan.copies[0].to == memory.output.data() + 24);
    CHECK(plan.copies[0].bytes == 12);
}

TEST_CASE("lists that are too short are a defect and no crash", "[unit]") {
    const Segment segment{.count = 3};
    CallPlan plan;
    for (const Operation operation :
         {Operation::allgather, Operation::reducescatter, Operation::alltoall, Operation::barrier}) {
        CHECK(plan_calls({.operation = operation, .segments = {&segment, 1}}, 0, 2, Packing::on, plan).code() ==
              ErrorCode::internal);
    }
    CHECK(plan_calls({.operation = Operation::alltoall}, 0, 2, Packing::on, plan).is_ok());  // no tensors, no calls
    CHECK(plan.calls.empty());
}

}  // namespace
}  // namespace rueda::collectives::cuda
