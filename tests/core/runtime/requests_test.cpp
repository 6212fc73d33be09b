// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/requests.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

TEST_CASE("a broadcast without an input is refused on the root, and nowhere else", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor out{values.data(), &extent, 1, RUEDA_FLOAT32};
    const rueda_tensor in{nullptr, &extent, 1, RUEDA_FLOAT32};
    const rueda_options options = RUEDA_OPTIONS_INIT;
    for (int rank = 0; rank < 3; ++rank) {
        INFO("rank " << rank);
        Request request;
        const Status made = make_broadcast(in, out, /*root=*/1, std::array{0, 1, 2}, rank, options, request);
        CHECK(made.is_ok() == (rank != 1));
        if (rank == 1) {
            CHECK(made.code() == ErrorCode::invalid_argument);
            CHECK(made.message() == "the input tensor has 4 elements and no data (a null pointer)");
        }
    }
}

Status refusal_of_bool(std::int32_t op, double prescale, double postscale) {
    std::array<bool, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{values.data(), &extent, 1, RUEDA_BOOL};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = op;
    options.prescale = prescale;
    options.postscale = postscale;
    Request request;
    Status made = make_allreduce(tensor, tensor, options, request);
    Request rows;
    const Status scattered = make_reducescatter(tensor, nullptr, 0, 2, options, rows);
    CHECK(scattered.message() == made.message());
    Request to_root;
    CHECK(make_reduce(tensor, nullptr, 1, std::array{0, 1}, 0, options, to_root).message() == made.message());
    return made;
}

TEST_CASE("sums, averages and factors of bool are refused with what to use instead", "[threads]") {
    for (const std::int32_t op : {RUEDA_MIN, RUEDA_MAX, RUEDA_PRODUCT}) {
        CHECK(refusal_of_bool(op, 1.0, 1.0).is_ok());
    }
    const Status sum = refusal_of_bool(RUEDA_SUM, 1.0, 1.0);
    CHECK(sum.code() == ErrorCode::unsupported);
    CHECK(sum.message() ==
          "there is no sum of bool; use max for or (true where any rank has true), min for and (true where every rank "
          "has), or an integer dtype to count");
    CHECK(refusal_of_bool(RUEDA_AVERAGE, 1.0, 1.0).message().starts_with("there is no average of bool; use max"));
    const Status scaled = refusal_of_bool(RUEDA_MAX, 0.5, 1.0);
    CHECK(scaled.code() == ErrorCode::unsupported);
    CHECK(scaled.message() ==
          "bool has no scale factors, and this max has the prescale factor 0.5 and the postscale factor 1; leave both "
          "at 1, or use another dtype");
    CHECK(refusal_of_bool(RUEDA_MIN, 1.0, 2.0).code() == ErrorCode::unsupported);
}

TEST_CASE("what does not exist for a tensor is refused with its name", "[threads]") {
    const Status sum = refusal_of_bool(RUEDA_SUM, 1.0, 1.0);
    CHECK(naming_unsupported("mask", sum).message() == "tensor 'mask': " + sum.message());
    CHECK(naming_unsupported("mask", sum).code() == ErrorCode::unsupported);
    CHECK(naming_unsupported("", sum).message() == "an unnamed tensor: " + sum.message());
    const Status other(ErrorCode::invalid_argument, "something else");
    CHECK(naming_unsupported("mask", other).message() == "something else");
}

Status scatter(const rueda_tensor& in, const rueda_tensor* out, int rank) {
    Request request;
    return make_scatter(in, nullptr, 0, out, /*root=*/0, std::array{0, 1}, rank, RUEDA_OPTIONS_INIT, request);
}

TEST_CASE("a scatter's input is checked before its shape is read, on every rank", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;  // the only one that is there
    const rueda_tensor right{values.data(), &extent, 1, RUEDA_FLOAT32};
    rueda_tensor many = right;
    many.ndim = 100;
    rueda_tensor negative = right;
    negative.ndim = -1;
    rueda_tensor shapeless = right;
    shapeless.shape = nullptr;
    for (const int rank : {0, 1}) {
        INFO("rank " << rank);
        CHECK(scatter(right, nullptr, rank).is_ok());
        CHECK(scatter(many, nullptr, rank).message() == "the input tensor has 100 dimensions; expected 0 to 16");
        CHECK(scatter(negative, nullptr, rank).message() == "the input tensor has -1 dimensions; expected 0 to 16");
        CHECK(scatter(shapeless, nullptr, rank).message() == "the input tensor has 1 dimensions and no shape");
    }
}

TEST_CASE("a scatter's output of other rows is refused with the shapes that were given", "[threads]") {
    std::array<float, 8> values{};
    const std::array<std::int64_t, 2> input_shape = {2, 3};
    const std::array<std::int64_t, 2> output_shape = {1, 2};
    const rueda_tensor in{values.data(), input_shape.data(), 2, RUEDA_FLOAT32};
    const rueda_tensor out{values.data() + 6, output_shape.data(), 2, RUEDA_FLOAT32};
    for (const int rank : {0, 1}) {
        CHECK(scatter(in, &out, rank).message() ==
              "the output's shape is [1, 2] and the input's [2, 3]; they may differ in the first dimension only");
    }
}

struct Made {
    Status status;
    Request request;
};

Made made_with(std::int32_t compression, std::int32_t dtype, std::int32_t op = RUEDA_SUM) {
    static std::array<std::byte, 64> memory{};
    static const std::int64_t extent = 4;
    const rueda_tensor tensor{memory.data(), &extent, 1, dtype};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = op;
    options.compression = compression;
    Made made;
    made.status = make_allreduce(tensor, tensor, options, made.request);
    if (made.status.is_ok()) {
        for (const std::int32_t next : {RUEDA_COMPRESSION_NONE, RUEDA_COMPRESSION_FP16, RUEDA_COMPRESSION_BF16}) {
            options.compression = next;
            CHECK(repeats_allreduce(made.request, tensor, tensor, options) == (next == compression));
        }
    }
    return made;
}

TEST_CASE("compression is for allreduces of float32 and float64", "[threads]") {
    for (const std::int32_t compression : {RUEDA_COMPRESSION_NONE, RUEDA_COMPRESSION_FP16, RUEDA_COMPRESSION_BF16}) {
        for (const std::int32_t dtype : {RUEDA_FLOAT32, RUEDA_FLOAT64}) {
            const Made made = made_with(compression, dtype);
            CHECK(made.status.is_ok());
            CHECK(made.request.metadata.compression == static_cast<std::uint32_t>(compression));
        }
    }
    for (const std::int32_t dtype : {RUEDA_INT32, RUEDA_FLOAT16, RUEDA_BFLOAT16}) {
        CHECK(made_with(RUEDA_COMPRESSION_NONE, dtype).status.is_ok());
        CHECK(made_with(RUEDA_COMPRESSION_BF16, dtype).status.code() == ErrorCode::unsupported);
    }
    CHECK(made_with(RUEDA_COMPRESSION_FP16, RUEDA_INT32).status.message() ==
          "there is no compression for an allreduce (sum) of int32, only for float32 and float64 and other reductions "
          "than adasum; leave it out, or set RUEDA_COMPRESSION, which leaves such tensors as they are");
    CHECK(made_with(3, RUEDA_FLOAT32).status.code() == ErrorCode::invalid_argument);
    CHECK(made_with(-1, RUEDA_FLOAT32).status.message() ==
          "the compression is -1; expected 0 to 2 (rueda_compression)");
}

TEST_CASE("other operations refuse compression", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{values.data(), &extent, 1, RUEDA_FLOAT32};
    rueda_options options = RUEDA_OPTIONS_INIT;
    const auto all = [&] {
        constexpr std::array kRanks{0, 1};
        std::array<Request, 8> requests;
        return std::array{make_broadcast(tensor, tensor, 0, kRanks, 0, options, requests[0]),
                          make_reduce(tensor, &tensor, 0, kRanks, 0, options, requests[1]),
                          make_gather(tensor, nullptr, 0, kRanks, 0, options, requests[2]),
                          make_scatter(tensor, nullptr, 0, nullptr, 0, kRanks, 0, options, requests[3]),
                          make_allgather(tensor, nullptr, options, requests[4]),
                          make_reducescatter(tensor, nullptr, 0, 2, options, requests[5]),
                          make_alltoall(tensor, nullptr, 0, nullptr, 2, options, requests[6]),
                          make_barrier(options, requests[7])};
    };
    for (const Status& made : all()) {
        INFO(made.message());
        CHECK(made.is_ok());
    }
    options.compression = RUEDA_COMPRESSION_FP16;
    for (const Status& made : all()) {
        INFO(made.message());
        CHECK(made.code() == ErrorCode::unsupported);
        CHECK(made.message().ends_with(", only for allreduce; leave it out"));
    }
}

}  // namespace
}  // namespace rueda::core
