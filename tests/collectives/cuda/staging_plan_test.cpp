// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/staged/staging_plan.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

namespace rueda::collectives::cuda {
namespace {

std::byte* device_memory(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

Segment in_place(std::uint64_t count, DType dtype = DType::float32, ReduceOp op = ReduceOp::sum) {
    return {.dtype = dtype,
            .reduce_op = op,
            .count = count,
            .input = device_memory(0x10000),
            .output = device_memory(0x10000)};
}

StagingPlan plan_of(const DeviceBatch& batch, std::uint32_t member = 0, std::uint32_t members = 2,
                    std::size_t most = 1024) {
    StagingPlan plan;
    REQUIRE(plan_staging(batch, member, members, most, plan).is_ok());
    return plan;
}

TEST_CASE("small tensors share a piece, and each begins at a cache line", "[unit]") {
    const std::vector<Segment> segments{in_place(10), in_place(0), in_place(1), in_place(30)};
    const StagingPlan plan = plan_of({.segments = segments});
    REQUIRE(plan.pieces.size() == 1);
    CHECK(plan.pieces[0].parts == 3);
    CHECK(plan.pieces[0].bytes == 256);
    CHECK(plan.parts[1].tensor == 2);
    CHECK(plan.parts[1].input_offset == 64);
    CHECK(plan.parts[1].output_offset == 64);
    CHECK(plan.parts[2].input_offset == 128);
    CHECK(plan.parts[2].input_bytes == 120);
}

TEST_CASE("a large tensor is divided at elements, and a small one is not", "[unit]") {
    const std::vector<Segment> segments{in_place(200), in_place(100), in_place(300, DType::float64)};
    const StagingPlan plan = plan_of({.segments = segments});
    REQUIRE(plan.pieces.size() == 5);  // 800, 400, and 1024 + 1024 + 352 bytes
    CHECK(plan.parts[1].segment.count == 100);
    CHECK(plan.parts[2].segment.count == 128);
    CHECK(plan.parts[4].segment.count == 44);
    CHECK(plan.parts[4].device_input == device_memory(0x10000 + 256 * 8));
    CHECK(plan.parts[4].device_output == plan.parts[4].device_input);
}

TEST_CASE("a tensor with Adasum is whole and alone", "[unit]") {
    const std::vector<Segment> segments{in_place(10), in_place(1000, DType::float32, ReduceOp::adasum), in_place(10)};
    const StagingPlan plan = plan_of({.segments = segments});
    REQUIRE(plan.pieces.size() == 3);
    CHECK(plan.pieces[1].parts == 1);
    CHECK(plan.pieces[1].bytes == 4032);
}

TEST_CASE("a member that has joined has the pieces of the others, and copies nothing", "[unit]") {
    Segment joined = in_place(1000);
    joined.input = joined.output = nullptr;
    const Segment segment = in_place(1000);
    const StagingPlan own = plan_of({.segments = {&joined, 1}});
    const StagingPlan other = plan_of({.segments = {&segment, 1}});
    REQUIRE(own.pieces.size() == other.pieces.size());
    for (std::size_t i = 0; i < own.parts.size(); ++i) {
        CHECK(own.parts[i].segment.count == other.parts[i].segment.count);
        CHECK(own.parts[i].device_input == nullptr);
        CHECK(own.parts[i].device_output == nullptr);
        CHECK_FALSE(own.parts[i].has_input);
    }
}

TEST_CASE("only the root of a broadcast is read, and only the root of a reduce is written", "[unit]") {
    Segment segment = in_place(10);
    segment.root = 1;
    segment.output = device_memory(0x20000);
    const auto part = [&](Operation operation, std::uint32_t member) {
        return plan_of({.operation = operation, .segments = {&segment, 1}}, member).parts[0];
    };
    CHECK(part(Operation::broadcast, 1).device_input == segment.input);
    CHECK(part(Operation::broadcast, 1).device_output == segment.output);
    CHECK(part(Operation::broadcast, 0).device_input == nullptr);
    CHECK(part(Operation::broadcast, 0).device_output == segment.output);
    CHECK(part(Operation::reduce, 0).device_input == segment.input);
    CHECK(part(Operation::reduce, 0).device_output == nullptr);
    CHECK_FALSE(part(Operation::reduce, 0).has_output);
    CHECK(part(Operation::reduce, 1).device_output == segment.output);
    segment.output = const_cast<std::byte*>(segment.input);
    CHECK(part(Operation::broadcast, 1).device_output == nullptr);  // the data is there already
}

TEST_CASE("rows have an input and an output in one piece", "[unit]") {
    Segment segment = in_place(4);
    segment.output = device_memory(0x20000);
    const std::vector<std::int64_t> rows{3, 5};
    const std::vector<std::int64_t> equal{7, 7};
    const std::vector<std::int64_t> splits{1, 2, 4, 8};
    const auto check = [](const StagingPlan& plan, std::size_t input, std::size_t output) {
        REQUIRE(plan.pieces.size() == 1);
        CHECK(plan.parts[0].input_bytes == input);
        CHECK(plan.parts[0].output_bytes == output);
        CHECK(plan.parts[0].output_offset >= input);
        CHECK(plan.pieces[0].bytes >= plan.parts[0].output_offset + output);
    };
    check(plan_of({.operation = Operation::allgather, .segments = {&segment, 1}, .rows = rows}, 1), 80, 128);
    check(plan_of({.operation = Operation::reducescatter, .segments = {&segment, 1}, .rows = equal}, 0), 112, 64);
    check(plan_of({.operation = Operation::reducescatter, .segments = {&segment, 1}, .rows = equal}, 1), 112, 48);
    check(plan_of({.operation = Operation::alltoall, .segments = {&segment, 1}, .splits = splits}), 48, 192);
    segment.output = nullptr;
    const StagingPlan dropped = plan_of({.operation = Operation::gather, .segments = {&segment, 1}, .splits = splits});
    CHECK(dropped.parts[0].output_bytes == 0);
    CHECK_FALSE(dropped.parts[0].has_output);
}

TEST_CASE("lists that are too short for the staging are a defect and no crash", "[unit]") {
    const Segment segment = in_place(4);
    StagingPlan plan;
    const std::vector<std::int64_t> one{1};
    CHECK(plan_staging({.operation = Operation::allgather, .segments = {&segment, 1}, .rows = one}, 0, 2, 64, plan)
              .code() == ErrorCode::internal);
    CHECK(plan_staging({.operation = Operation::scatter, .segments = {&segment, 1}, .splits = one}, 0, 2, 64, plan)
              .code() == ErrorCode::internal);
    CHECK(plan_staging({.operation = Operation::join, .segments = {&segment, 1}}, 0, 2, 64, plan).code() ==
          ErrorCode::internal);
}

}  // namespace
}  // namespace rueda::collectives::cuda
