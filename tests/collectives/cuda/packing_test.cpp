// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests which tensors are packed, and where. The tested functions only compute, so the tests need no device.
#include "collectives/cuda/nccl/packing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <tuple>
#include <vector>

#include "ops/cuda/kernel_arguments.hpp"

namespace rueda::collectives::cuda {
namespace {

/// Distinct addresses that are never used. The plan must not depend on them.
std::byte* address(std::uintptr_t number) { return reinterpret_cast<std::byte*>(number); }

std::vector<Segment> tensors_of(std::size_t number, std::uint64_t count, DType dtype = DType::float32) {
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < number; ++i) {
        std::byte* const memory = address(0x10000000 + i * 0x100000);
        segments.push_back(
            {.dtype = dtype, .reduce_op = ReduceOp::sum, .count = count, .input = memory, .output = memory});
    }
    return segments;
}

CallPlan packed_plan(const std::vector<Segment>& segments, Packing packing = Packing::on) {
    CallPlan plan;
    REQUIRE(plan_calls({.segments = segments}, 1, 4, packing, plan).is_ok());
    return plan;
}

std::vector<Segment> joined(std::vector<Segment> segments) {
    for (Segment& segment : segments) {
        segment.input = segment.output = nullptr;
    }
    return segments;
}

TEST_CASE("small tensors of one reduction share one call, in place in scratch memory", "[unit]") {
    const std::vector<Segment> segments = tensors_of(10, 3);
    const CallPlan plan = packed_plan(segments);
    REQUIRE(plan.calls.size() == 1);
    CHECK(plan.calls[0].kind == NcclCall::Kind::all_reduce);
    CHECK(plan.calls[0].type == kNcclFloat32);
    CHECK(plan.calls[0].count == 40);  // each of the 10 tensors has 12 bytes and is padded to 16 bytes
    CHECK(plan.calls[0].input.is_scratch);
    CHECK(plan.calls[0].output.is_scratch);
    CHECK(plan.calls[0].input.offset == plan.calls[0].output.offset);
    REQUIRE(plan.packed.size() == 10);
    CHECK(plan.packed[9].input == segments[9].input);
    CHECK(plan.packed[9].output == segments[9].output);
    CHECK(plan.packed[9].offset == 144);
    CHECK(plan.packed[9].bytes == 12);
    CHECK(plan.scratch_bytes == 512);
    CHECK(plan.fills.empty());
}

TEST_CASE("without packing, the same batch has a call for each tensor", "[unit]") {
    const CallPlan plan = packed_plan(tensors_of(10, 3), Packing::off);
    CHECK(plan.calls.size() == 10);
    CHECK(plan.packed.empty());
    CHECK(plan.scratch_bytes == 0);
}

TEST_CASE("the model decides from how many tensors on packing is worth two kernels", "[unit]") {
    CHECK(packed_plan(tensors_of(4, 1)).packed.empty());  // packing saves 3 calls (6 µs), but its two kernels cost 6 µs
    CHECK(packed_plan(tensors_of(5, 1)).packed.size() == 5);
    // Packing saves 2 µs more than its kernels cost. In these 2 µs, 160000 bytes can be copied.
    CHECK(packed_plan(tensors_of(5, 7996)).packed.size() == 5);
    CHECK(packed_plan(tensors_of(5, 8004)).packed.empty());
    // If there are more tensors than one kernel can copy, packing needs two more kernels.
    CHECK(gain_of_packing({{.tensors = 160, .bytes = 0}}) == 159 * 2000 - 6000);
    CHECK(gain_of_packing({{.tensors = 161, .bytes = 3200}}) == 160 * 2000 - 12000 - 40);
    CHECK(gain_of_packing({{.tensors = 100, .bytes = 0}, {.tensors = 1, .bytes = 1 << 20}}) == 99 * 2000 - 6000);
    CHECK(gain_of_packing({}) == 0);
}

TEST_CASE("a large tensor stays in the group without a copy", "[unit]") {
    std::vector<Segment> segments = tensors_of(20, kMostPackedBytes / 4 / 20);
    const auto large = tensors_of(1, kMostPackedBytes / 4 + 1);
    const auto largest_packed = tensors_of(1, kMostPackedBytes / 4);
    segments.insert(segments.begin() + 3, large[0]);
    segments.insert(segments.begin() + 7, largest_packed[0]);
    const CallPlan plan = packed_plan(segments);
    REQUIRE(plan.calls.size() == 2);
    CHECK(plan.calls[0].count == large[0].count);
    CHECK(plan.calls[0].input.address == large[0].input);
    CHECK(plan.calls[1].input.is_scratch);
    CHECK(plan.packed.size() == 21);
}

TEST_CASE("types, reductions and factors have packs of their own, and single tensors have none", "[unit]") {
    std::vector<Segment> segments;
    for (int i = 0; i < 6; ++i) {
        const auto add = [&](DType dtype, ReduceOp op, double prescale) {
            Segment segment = tensors_of(1, 5, dtype)[0];
            segment.reduce_op = op;
            segment.prescale = prescale;
            segments.push_back(segment);
        };
        add(DType::float32, ReduceOp::sum, 1.0);
        add(DType::float16, ReduceOp::sum, 1.0);
        add(DType::float32, ReduceOp::average, 1.0);
        add(DType::float32, ReduceOp::sum, 0.5);
        add(DType::boolean, ReduceOp::min, 1.0);
        add(DType::uint8, ReduceOp::min, 1.0);  // NCCL combines uint8 and bool in the same call
        if (i == 0) {
            add(DType::int64, ReduceOp::max, 1.0);
            add(DType::float64, ReduceOp::sum, 1.0);
            segments.back().count = 0;
        }
    }
    const CallPlan plan = packed_plan(segments);
    CHECK(plan.packed.size() == 36);
    CHECK(plan.calls.size() == 6);
    CHECK(plan.calls[0].type == kNcclInt64);
    CHECK_FALSE(plan.calls[0].input.is_scratch);
    CHECK(plan.calls[5].type == kNcclUint8);
    CHECK(plan.calls[5].count == 12 * 16);
    CHECK(plan.factors.size() == 1);
}

TEST_CASE("a member that has joined fills its part of the packs", "[unit]") {
    std::vector<Segment> segments = tensors_of(8, 5);
    segments[3].reduce_op = segments[7].reduce_op = ReduceOp::max;
    segments[5].count = 200'000;
    const CallPlan plan = packed_plan(joined(segments));
    CHECK(plan.packed.empty());
    REQUIRE(plan.calls.size() == 3);
    // Neutral elements fill three parts of scratch memory: for the sums, for the maxima, and for the large tensor.
    REQUIRE(plan.fills.size() == 3);
    std::size_t bytes = 0;
    for (const NeutralFill& fill : plan.fills) {
        CHECK(fill.offset % kPackAlignment == 0);
        CHECK(fill.offset + fill.bytes <= plan.scratch_bytes);
        bytes += fill.bytes;
    }
    CHECK(bytes == 7 * 32 + 800'000);
}

/// A part of scratch memory that a plan uses.
struct Part {
    std::size_t begin;
    std::size_t end;
};

/// All parts that must not overlap: packed tensors, and the memory of a member that has joined.
std::vector<Part> parts_of(const CallPlan& plan) {
    std::vector<Part> parts;
    for (const PackedTensor& tensor : plan.packed) {
        CHECK(tensor.offset % kPackAlignment == 0);
        parts.push_back({tensor.offset, tensor.offset + tensor.bytes});
    }
    for (const NeutralFill& fill : plan.fills) {
        parts.push_back({fill.offset, fill.offset + fill.bytes});
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    return parts;
}

/// Whether all parts are inside of the scratch memory, and none overlaps another one.
bool are_separate(const CallPlan& plan) {
    std::size_t end = 0;
    for (const Part& part : parts_of(plan)) {
        if (part.begin < end || part.end > plan.scratch_bytes) {
            return false;
        }
        end = part.end;
    }
    return true;
}

/// Whether the parts cover all scratch memory that NCCL reads, except for less than 16 bytes after each tensor.
bool are_covered(const CallPlan& plan) {
    const std::vector<Part> parts = parts_of(plan);
    return std::all_of(plan.calls.begin(), plan.calls.end(), [&](const NcclCall& call) {
        const std::size_t size = call.type == kNcclFloat32 ? 4 : call.type == kNcclFloat64 ? 8 : 2;
        std::size_t covered = call.input.offset;
        for (const Part& part : parts) {
            if (part.begin <= packed_size(covered)) {
                covered = std::max(covered, part.end);
            }
        }
        return !call.input.is_scratch || packed_size(covered) >= call.input.offset + call.count * size;
    });
}

/// The parts of a plan that must be equal on all members.
auto agreed(const CallPlan& plan) {
    std::vector<std::tuple<NcclCall::Kind, NcclType, NcclReduction, int, std::size_t>> calls;
    for (const NcclCall& call : plan.calls) {
        calls.emplace_back(call.kind, call.type, call.reduction, call.factor, call.count);
    }
    return calls;
}

TEST_CASE("all members plan the same calls, wherever their tensors lie", "[unit]") {
    std::mt19937_64 random(Catch::rngSeed());
    for (int round = 0; round < 500; ++round) {
        std::vector<Segment> segments;
        const std::size_t number = random() % 400;
        for (std::size_t i = 0; i < number; ++i) {
            constexpr DType kTypes[] = {DType::float32, DType::float64, DType::float16};
            segments.push_back({.dtype = kTypes[random() % 3],
                                .reduce_op = random() % 2 == 0 ? ReduceOp::sum : ReduceOp::average,
                                .prescale = random() % 4 == 0 ? 0.25 : 1.0,
                                .count = random() % 3 == 0 ? random() % 70'000 : random() % 100,
                                .input = address(1 + random() % 1'000'000),
                                .output = address(1 + random() % 1'000'000)});
        }
        const CallPlan one = packed_plan(segments);
        const CallPlan absent = packed_plan(joined(segments));
        for (Segment& segment : segments) {
            segment.input = segment.output = address(0x7000000 + random() % 64);
        }
        const CallPlan other = packed_plan(segments);
        CHECK(agreed(one) == agreed(other));
        CHECK(agreed(one) == agreed(absent));
        CHECK(are_separate(one));
        CHECK(are_separate(absent));
        CHECK(are_covered(one));
        CHECK(are_covered(absent));
        std::size_t in_calls = 0;
        for (const NcclCall& call : one.calls) {
            in_calls += call.input.is_scratch ? 0 : 1;
        }
        const auto empty = static_cast<std::size_t>(
            std::count_if(segments.begin(), segments.end(), [](const Segment& s) { return s.count == 0; }));
        CHECK(one.packed.size() + in_calls + empty == number);
    }
}

}  // namespace
}  // namespace rueda::collectives::cuda
