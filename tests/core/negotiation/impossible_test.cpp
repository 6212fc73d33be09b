// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/impossible.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {
namespace {

using collectives::Operation;

constexpr std::array<std::int32_t, 3> kRanks{1, 2, 5};

Metadata of(Operation operation, ReduceOp op = ReduceOp::sum, DType dtype = DType::float32) {
    Metadata metadata = allreduce_of({4}, dtype);
    metadata.operation = static_cast<std::uint8_t>(operation);
    metadata.reduce_op = static_cast<std::uint8_t>(op);
    return metadata;
}

Metadata scalar_of(Operation operation) {
    Metadata metadata = of(operation);
    metadata.ndim = 0;
    return metadata;
}

Metadata compressed_of(Operation operation, DType dtype = DType::float32, ReduceOp op = ReduceOp::sum) {
    Metadata metadata = of(operation, op, dtype);
    metadata.compression = static_cast<std::uint16_t>(Compression::fp16);
    return metadata;
}

Metadata scaled_of(Operation operation, double prescale, double postscale) {
    Metadata metadata = of(operation, ReduceOp::max, DType::boolean);
    metadata.prescale = prescale;
    metadata.postscale = postscale;
    return metadata;
}

Metadata foreign_of(Operation operation, std::int32_t root, std::int32_t process_set) {
    Metadata metadata = of(operation);
    metadata.root = root;
    metadata.root_is_foreign = 1;
    metadata.process_set = process_set;
    return metadata;
}

struct Refusal {
    Metadata metadata;
    ErrorCode code;
    std::string text;
};

std::vector<Refusal> refusals() {
    constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
    constexpr ErrorCode kUnsupported = ErrorCode::unsupported;
    const std::string scalar =
        " tensors along their first dimension, and the input is a scalar (0 dimensions); give it the shape [1]";
    std::vector<Refusal> all = {
        {scalar_of(Operation::allgather), kInvalid, "an allgather joins" + scalar},
        {scalar_of(Operation::gather), kInvalid, "a gather joins" + scalar},
        {scalar_of(Operation::scatter), kInvalid, "a scatter splits" + scalar},
        {scalar_of(Operation::reducescatter), kInvalid, "a reducescatter splits" + scalar},
        {scalar_of(Operation::alltoall), kInvalid, "an alltoall splits" + scalar},
    };
    const std::string no_reduction =
        " of bool; use max for or (true where any rank has true), min for and (true where every rank has), or an "
        "integer dtype to count";
    const std::string factors = "; leave both at 1, or use another dtype";
    for (const Operation operation : {Operation::allreduce, Operation::reducescatter, Operation::reduce}) {
        all.push_back({of(operation, ReduceOp::sum, DType::boolean), kUnsupported, "there is no sum" + no_reduction});
        all.push_back(
            {of(operation, ReduceOp::average, DType::boolean), kUnsupported, "there is no average" + no_reduction});
        all.push_back(
            {scaled_of(operation, 0.5, 1), kUnsupported,
             "bool has no scale factors, and this max has the prescale factor 0.5 and the postscale factor 1" +
                 factors});
        all.push_back({scaled_of(operation, 1, -2), kUnsupported,
                       "bool has no scale factors, and this max has the prescale factor 1 and the postscale factor -2" +
                           factors});
    }
    for (const DType dtype : {DType::int32, DType::uint64, DType::boolean, DType::float8_e4m3fn}) {
        all.push_back({of(Operation::allreduce, ReduceOp::adasum, dtype), kUnsupported,
                       std::string("there is no adasum of ") + name_of(dtype) +
                           "; use float16, bfloat16, float32 or float64, or sum or average"});
    }
    for (const Operation operation : {Operation::reducescatter, Operation::reduce}) {
        all.push_back(
            {of(operation, ReduceOp::adasum), kUnsupported,
             std::string("there is no ") + collectives::name_of(operation) +
                 " by adasum, which needs whole tensors; use an allreduce, or average, sum, min, max or product"});
    }
    for (const Operation operation :
         {Operation::broadcast, Operation::allgather, Operation::barrier, Operation::alltoall, Operation::reducescatter,
          Operation::gather, Operation::scatter, Operation::reduce}) {
        all.push_back({compressed_of(operation), kUnsupported,
                       std::string("there is no compression for ") + collectives::name_of(operation) +
                           ", only for allreduce; leave it out"});
    }
    const std::string rule =
        ", only for float32 and float64 and other reductions than adasum; leave it out, or set RUEDA_COMPRESSION, "
        "which "
        "leaves such tensors as they are";
    all.push_back({compressed_of(Operation::allreduce, DType::int32), kUnsupported,
                   "there is no compression for an allreduce (sum) of int32" + rule});
    all.push_back({compressed_of(Operation::allreduce, DType::float64, ReduceOp::adasum), kUnsupported,
                   "there is no compression for an allreduce (adasum) of float64" + rule});
    for (const Operation operation : {Operation::broadcast, Operation::gather, Operation::scatter, Operation::reduce}) {
        all.push_back({foreign_of(operation, 7, 0), kInvalid, "the root rank is 7; expected 0 to 5"});
        all.push_back({foreign_of(operation, -1, 3), kInvalid,
                       "the root rank is -1, which is not in process set 3; expected one of 1, 2, 5"});
    }
    return all;
}

TEST_CASE("impossible metadata are plausible, and are refused with the reason and the remedy") {
    for (const Refusal& row : refusals()) {
        INFO(row.text);
        CHECK(is_plausible(row.metadata));
        CHECK_FALSE(is_possible(row.metadata));
        const Status refusal = refusal_of(row.metadata, kRanks);
        CHECK(refusal.code() == row.code);
        CHECK(is_refusal(refusal.code()));
        CHECK(refusal.message() == row.text);
        const Status named = refusal_of("layer1", 0, row.metadata, kRanks);
        CHECK(named.code() == row.code);
        CHECK(named.message() == "tensor 'layer1': " + row.text);
        CHECK(refusal_of("", 3, row.metadata, kRanks).message() ==
              "the 3rd unnamed operation of this process set: " + row.text);
    }
}

TEST_CASE("possible operations are not refused") {
    std::vector<Metadata> all = {allreduce_of({}), compressed_of(Operation::allreduce),
                                 compressed_of(Operation::allreduce, DType::float64, ReduceOp::max),
                                 scalar_of(Operation::broadcast), scalar_of(Operation::barrier)};
    for (const Operation operation : {Operation::allreduce, Operation::reducescatter, Operation::reduce}) {
        for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
            all.push_back(of(operation, op, DType::boolean));
        }
        for (const ReduceOp op : {ReduceOp::average, ReduceOp::sum}) {
            all.push_back(of(operation, op, DType::int8));
        }
    }
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
        all.push_back(of(Operation::allreduce, ReduceOp::adasum, dtype));
    }
    // These operations have no reduction, so they ignore the field reduce_op.
    for (const Operation operation : {Operation::broadcast, Operation::allgather, Operation::alltoall,
                                      Operation::gather, Operation::scatter, Operation::group}) {
        all.push_back(of(operation, ReduceOp::average, DType::boolean));
    }
    for (const Metadata& metadata : all) {
        INFO(collectives::name_of(static_cast<Operation>(metadata.operation)));
        CHECK(is_plausible(metadata));
        CHECK(is_possible(metadata));
        CHECK(refusal_of(metadata, kRanks).is_ok());
        CHECK(refusal_of("layer1", 0, metadata, kRanks).is_ok());
    }
}

TEST_CASE("tensors on a GPU can do what tensors of the CPU can do") {
    const auto refusal = [](DType dtype, ReduceOp op, Compression compression) {
        Metadata metadata = of(Operation::allreduce, op, dtype);
        metadata.compression = static_cast<std::uint16_t>(compression);
        metadata.device = static_cast<std::uint8_t>(DeviceType::cuda);
        return refusal_of(metadata, kRanks).message();
    };
    CHECK(refusal(DType::int16, ReduceOp::sum, Compression::none).empty());
    CHECK(refusal(DType::float32, ReduceOp::adasum, Compression::none).empty());
    CHECK(refusal(DType::float32, ReduceOp::sum, Compression::fp16).empty());
    CHECK_THAT(refusal(DType::boolean, ReduceOp::sum, Compression::none),
               Catch::Matchers::Contains("there is no sum of bool"));
    CHECK_THAT(refusal(DType::int32, ReduceOp::adasum, Compression::none),
               Catch::Matchers::Contains("there is no adasum of int32"));
}

TEST_CASE("only an operation with a root has one that is not in the set") {
    CHECK_FALSE(is_plausible(foreign_of(Operation::allreduce, 7, 0)));
    CHECK_FALSE(is_plausible(foreign_of(Operation::allgather, 7, 0)));
    Metadata marked = foreign_of(Operation::broadcast, 7, 0);
    CHECK(is_plausible(marked));
    marked.root_is_foreign = 2;
    CHECK_FALSE(is_plausible(marked));
}

TEST_CASE("a root that is not in the set is named as the caller did, beside those that are") {
    std::vector<Metadata> by_rank(3, foreign_of(Operation::broadcast, 0, 2));
    by_rank[1].root_is_foreign = by_rank[2].root_is_foreign = 0;
    by_rank[1].root = by_rank[2].root = 2;
    CHECK(mismatch_of("w", by_rank, kRanks).message() ==
          "tensor 'w': the ranks disagree about the root rank: rank 1: 0; ranks 2, 5: 5");
}

}  // namespace
}  // namespace rueda::core::test
