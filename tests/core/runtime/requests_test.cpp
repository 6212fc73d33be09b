// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/requests.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "core/negotiation/impossible.hpp"
#include "rueda/rueda.hpp"

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

/// Returns the requests of an allreduce, a reducescatter and a reduce.
std::array<Request, 3> reductions(std::int32_t dtype, const rueda_options& options) {
    static std::array<std::byte, 64> memory{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{memory.data(), &extent, 1, dtype};
    std::array<Request, 3> requests;
    CHECK(make_allreduce(tensor, tensor, options, requests[0]).is_ok());
    CHECK(make_reducescatter(tensor, nullptr, 0, 2, options, requests[1]).is_ok());
    CHECK(make_reduce(tensor, &tensor, 0, std::array{0, 1}, 0, options, requests[2]).is_ok());
    return requests;
}

TEST_CASE("a reduction that the operation or the dtype does not have is announced and refused, and moves nothing",
          "[threads]") {
    rueda_options options = RUEDA_OPTIONS_INIT;
    for (const std::int32_t op : {RUEDA_MIN, RUEDA_MAX, RUEDA_PRODUCT}) {
        options.reduce_op = op;
        for (const Request& request : reductions(RUEDA_BOOL, options)) {
            CHECK_FALSE(request.is_refused);
        }
    }
    for (const std::int32_t op : {RUEDA_SUM, RUEDA_AVERAGE}) {
        options.reduce_op = op;
        for (const Request& request : reductions(RUEDA_BOOL, options)) {
            CHECK(request.is_refused);
            CHECK(request.count == 0);
            // the shape is set even in a refused request, because the other ranks compare it
            CHECK(request.metadata.shape[0] == 4);
            CHECK_FALSE(is_possible(request.metadata));
        }
    }
    options.reduce_op = RUEDA_ADASUM;
    const std::array<Request, 3> adasums = reductions(RUEDA_FLOAT32, options);
    CHECK_FALSE(adasums[0].is_refused);
    CHECK(adasums[1].is_refused);
    CHECK(adasums[2].is_refused);
}

TEST_CASE("an unknown reduction, compression or dtype is refused at once", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{values.data(), &extent, 1, RUEDA_FLOAT32};
    rueda_options options = RUEDA_OPTIONS_INIT;
    options.reduce_op = 6;
    Request request;
    CHECK(make_allreduce(tensor, tensor, options, request).message() ==
          "the reduce operation is 6; expected 0 (average), 1 (sum), 2 (Adasum), 3 (min), 4 (max) or 5 (product)");
    rueda_tensor untyped = tensor;
    untyped.dtype = kDTypeCount;
    CHECK(make_allgather(untyped, nullptr, RUEDA_OPTIONS_INIT, request).message() ==
          "the input tensor's dtype is 15; expected 0 to 14 (rueda_dtype)");
}

TEST_CASE("tensors without dimensions are announced where rows are meant, on every rank alike", "[threads]") {
    std::array<float, 4> values{};
    const rueda_tensor scalar{values.data(), nullptr, 0, RUEDA_FLOAT32};
    const std::int64_t extent = 4;
    const rueda_tensor out{values.data(), &extent, 1, RUEDA_FLOAT32};
    const rueda_options options = RUEDA_OPTIONS_INIT;
    constexpr std::array kRanks{0, 1};
    for (const int rank : kRanks) {
        std::array<Request, 5> requests;
        CHECK(make_allgather(scalar, &out, options, requests[0]).is_ok());
        CHECK(make_gather(scalar, &out, 0, kRanks, rank, options, requests[1]).is_ok());
        CHECK(make_scatter(scalar, nullptr, 0, &out, 0, kRanks, rank, options, requests[2]).is_ok());
        CHECK(make_reducescatter(scalar, &out, rank, 2, options, requests[3]).is_ok());
        CHECK(make_alltoall(scalar, nullptr, 0, &out, 2, options, requests[4]).is_ok());
        for (const Request& request : requests) {
            CHECK(request.is_refused);
            CHECK(request.metadata.ndim == 0);
            CHECK(request.first_dimension == 0);
            CHECK(request.count == 0);
            CHECK(request.splits.empty());
        }
    }
}

TEST_CASE("a root that is not in the set is announced as it was given", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{values.data(), &extent, 1, RUEDA_FLOAT32};
    const rueda_options options = RUEDA_OPTIONS_INIT;
    constexpr std::array kRanks{1, 5};
    for (const int root : {0, 2, 7, -1}) {
        std::array<Request, 4> requests;
        CHECK(make_broadcast(tensor, tensor, root, kRanks, 0, options, requests[0]).is_ok());
        CHECK(make_gather(tensor, nullptr, root, kRanks, 0, options, requests[1]).is_ok());
        CHECK(make_scatter(tensor, nullptr, 0, nullptr, root, kRanks, 0, options, requests[2]).is_ok());
        CHECK(make_reduce(tensor, nullptr, root, kRanks, 0, options, requests[3]).is_ok());
        for (const Request& request : requests) {
            CHECK(request.is_refused);
            CHECK(request.metadata.root == root);
            CHECK(request.metadata.root_is_foreign == 1);
        }
    }
    Request request;
    CHECK(make_broadcast(tensor, tensor, 5, kRanks, 0, options, request).is_ok());
    CHECK_FALSE(request.is_refused);
    CHECK(request.metadata.root == 1);
    CHECK(request.metadata.root_is_foreign == 0);
}

TEST_CASE("the error of a call that is refused at once names the tensor", "[threads]") {
    const Status made(ErrorCode::invalid_argument, "the output is too small");
    CHECK(naming_tensor("mask", made).message() == "tensor 'mask': the output is too small");
    CHECK(naming_tensor("mask", made).code() == ErrorCode::invalid_argument);
    CHECK(naming_tensor("", made).message() == "an unnamed tensor: the output is too small");
}

Status scatter(const rueda_tensor& in, const rueda_tensor* out, int rank) {
    Request request;
    return make_scatter(in, nullptr, 0, out, /*root=*/0, std::array{0, 1}, rank, RUEDA_OPTIONS_INIT, request);
}

TEST_CASE("a scatter's input is checked before its shape is read, on every rank", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;  // the array of extents has only one element
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
            const Arguments arguments{.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor};
            // A request that all ranks will refuse is made and checked anew each time.
            CHECK(repeats(made.request, arguments, {std::array{0, 1}, 0}, options) ==
                  (next == compression && !made.request.is_refused));
        }
    }
    return made;
}

TEST_CASE("compression is for allreduces of float32 and float64", "[threads]") {
    for (const std::int32_t compression : {RUEDA_COMPRESSION_NONE, RUEDA_COMPRESSION_FP16, RUEDA_COMPRESSION_BF16}) {
        for (const std::int32_t dtype : {RUEDA_FLOAT32, RUEDA_FLOAT64}) {
            const Made made = made_with(compression, dtype);
            CHECK(made.status.is_ok());
            CHECK_FALSE(made.request.is_refused);
            CHECK(made.request.metadata.compression == static_cast<std::uint32_t>(compression));
        }
    }
    for (const std::int32_t dtype : {RUEDA_INT32, RUEDA_FLOAT16, RUEDA_BFLOAT16, RUEDA_FLOAT8_E5M2}) {
        CHECK_FALSE(made_with(RUEDA_COMPRESSION_NONE, dtype).request.is_refused);
        CHECK(made_with(RUEDA_COMPRESSION_BF16, dtype).request.is_refused);
    }
    CHECK(made_with(3, RUEDA_FLOAT32).status.code() == ErrorCode::invalid_argument);
    CHECK(made_with(-1, RUEDA_FLOAT32).status.message() ==
          "the compression is -1; expected 0 to 2 (rueda_compression)");
}

TEST_CASE("an extent of 0 makes a tensor empty, wherever it stands and however large the others are", "[threads]") {
    // A shape with two dimensions of this size has more elements than 64 bits can count.
    constexpr std::int64_t kLarge = std::int64_t{1} << 33;
    const rueda_options options = RUEDA_OPTIONS_INIT;
    for (const std::array<std::int64_t, 3>& shape :
         {std::array<std::int64_t, 3>{0, kLarge, kLarge}, {kLarge, 0, kLarge}, {kLarge, kLarge, 0}}) {
        INFO(shape[0] << ", " << shape[1] << ", " << shape[2]);
        CHECK(Shape(shape).elements() == 0);
        CHECK(detail::count_of_elements(shape) == std::uint64_t{0});
        const rueda_tensor tensor{nullptr, shape.data(), 3, RUEDA_FLOAT32};
        Request reduced;
        CHECK(make_allreduce(tensor, tensor, options, reduced).is_ok());
        CHECK(reduced.count == 0);
        Request copied;
        CHECK(make_broadcast(tensor, tensor, 0, std::array{0, 1}, 0, options, copied).is_ok());
        CHECK(check_message(&tensor, "input", 1, false, std::array{0, 1}, options).value().bytes == 0);
        // A row must have a valid size even if this rank has no rows, because other ranks may have some.
        Request gathered;
        const Status made = make_allgather(tensor, nullptr, options, gathered);
        CHECK(made.is_ok() == (shape[0] != 0));
        if (!made.is_ok()) {
            CHECK(made.message() ==
                  "the input tensor's shape is [0, 8589934592, 8589934592], and one of its rows would "
                  "have more elements than any memory holds; expected at most 2^60");
        }
    }
}

TEST_CASE("every extent is looked at, also beside one of 0", "[threads]") {
    const rueda_options options = RUEDA_OPTIONS_INIT;
    const auto refusal = [&](const std::array<std::int64_t, 3>& shape) {
        const rueda_tensor tensor{nullptr, shape.data(), 3, RUEDA_FLOAT32};
        Request request;
        return make_allreduce(tensor, tensor, options, request).message();
    };
    CHECK(refusal({0, -1, 2}) == "the input tensor's dimension 1 is -1; extents must not be negative");
    CHECK(refusal({-3, 0, 2}) == "the input tensor's dimension 0 is -3; extents must not be negative");
    constexpr std::int64_t kLarge = std::int64_t{1} << 30;
    CHECK(refusal({kLarge, kLarge, 2}) ==
          "the input tensor's shape is [1073741824, 1073741824, 2], which is more elements than any memory holds; "
          "expected at most 2^60");
    CHECK(Shape({kLarge, kLarge, 2}).elements() == -1);
    CHECK(Shape({0, -1}).elements() == -1);
    CHECK(Shape({kLarge, kLarge}).elements() == kLarge * kLarge);
    CHECK(Shape().elements() == 1);
}

TEST_CASE("compression of other operations is announced and then refused", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{values.data(), &extent, 1, RUEDA_FLOAT32};
    rueda_options options = RUEDA_OPTIONS_INIT;
    std::array<Request, 8> requests;
    const auto all = [&] {
        constexpr std::array kRanks{0, 1};
        requests = {};
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
    for (const Request& request : requests) {
        CHECK_FALSE(request.is_refused);
    }
    options.compression = RUEDA_COMPRESSION_FP16;
    for (const Status& made : all()) {
        CHECK(made.is_ok());
    }
    for (const Request& request : requests) {
        CHECK(request.is_refused);
        CHECK(request.metadata.compression == RUEDA_COMPRESSION_FP16);
    }
}

using collectives::Operation;

/// Each of these numbers chooses one of a few values.
using Choices = std::array<std::uint32_t, 24>;

class RandomCall {
public:
    RandomCall(const Choices& choices, Operation operation) {
        std::size_t next = 0;
        const auto one_of = [&](auto... values) {
            const std::array all{values...};
            return all[choices.at(next++) % all.size()];
        };
        static std::array<std::byte, 1024> memory{};
        const auto draw = [&](rueda_tensor& tensor, std::array<std::int64_t, 2>& shape) {
            shape = {one_of(2, 2, 2, 4), one_of(3, 3, 3, 1)};
            tensor = {memory.data() + one_of(0, 0, 0, 256, 512), shape.data(), one_of(2, 2, 2, 1, 0),
                      one_of(RUEDA_FLOAT32, RUEDA_FLOAT32, RUEDA_INT32)};
        };
        draw(in_, in_shape_);
        draw(out_, out_shape_);
        if (one_of(true, false) && operation != Operation::allreduce && operation != Operation::broadcast) {
            // an output that fits, because random ones rarely do
            out_ = in_;
            out_.shape = out_shape_.data();
            out_.data = memory.data() + 768;
            out_shape_ = in_shape_;
            out_shape_[0] = operation == Operation::reducescatter ? in_shape_[0] / 2 : out_shape_[0];
        }
        const bool is_in_place = operation != Operation::reducescatter && one_of(false, true);
        arguments = {.operation = operation,
                     .in = &in_,
                     .out = is_in_place ? &in_ : &out_,
                     .root = one_of(4, 7, 5),
                     .splits = one_of(false, true) ? splits_.data() : nullptr,
                     .split_count = 2};
        splits_ = {one_of(1, 1, 0), one_of(1, 1, 3)};
        options.reduce_op = one_of(RUEDA_SUM, RUEDA_SUM, RUEDA_MAX);
        options.prescale = one_of(1.0, 1.0, 0.5);
        options.postscale = one_of(1.0, 1.0, -0.0, 0.0);
        options.process_set = one_of(0, 0, 1);
        options.compression = one_of(RUEDA_COMPRESSION_NONE, RUEDA_COMPRESSION_NONE, RUEDA_COMPRESSION_FP16);
    }
    RandomCall(const RandomCall&) = delete;
    RandomCall& operator=(const RandomCall&) = delete;

    Arguments arguments;
    rueda_options options = RUEDA_OPTIONS_INIT;

private:
    std::array<std::int64_t, 2> in_shape_{};
    std::array<std::int64_t, 2> out_shape_{};
    std::array<std::int64_t, 2> splits_{};
    rueda_tensor in_{};
    rueda_tensor out_{};
};

bool are_equal(const Request& a, const Request& b) {
    return std::memcmp(&a.metadata, &b.metadata, sizeof(Metadata)) == 0 && a.input == b.input && a.output == b.output &&
           a.count == b.count && a.first_dimension == b.first_dimension && a.splits == b.splits &&
           a.output_rows == b.output_rows && a.asked_compression == b.asked_compression && a.is_refused == b.is_refused;
}

TEST_CASE("arguments repeat a request only if they would make it again", "[threads]") {
    std::mt19937 random(36);
    constexpr std::array kRanks{4, 7};
    for (const Operation operation : {Operation::allreduce, Operation::broadcast, Operation::allgather,
                                      Operation::reducescatter, Operation::alltoall, Operation::gather}) {
        INFO(name_of(operation));
        int repeated = 0;
        for (int draw = 0; draw < 20'000; ++draw) {
            const Membership set{kRanks, static_cast<int>(random() % 2)};
            Choices choices;
            std::generate(choices.begin(), choices.end(), [&random] { return static_cast<std::uint32_t>(random()); });
            const RandomCall first(choices, operation);
            choices.at(random() % choices.size()) = static_cast<std::uint32_t>(random());
            const RandomCall second(choices, operation);
            Request last;
            if (!make_request(first.arguments, set, first.options, last).is_ok()) {
                continue;
            }
            Request next;
            const bool is_same =
                make_request(second.arguments, set, second.options, next).is_ok() && are_equal(last, next);
            const bool may_repeat = operation != Operation::gather && !last.is_refused;
            REQUIRE(repeats(last, second.arguments, set, second.options) == (is_same && may_repeat));
            repeated += is_same && may_repeat ? 1 : 0;
            Request made_again;
            REQUIRE(make_request(first.arguments, set, first.options, made_again).is_ok());
            REQUIRE(are_equal(last, made_again));
            REQUIRE(repeats(last, first.arguments, set, first.options) == may_repeat);
        }
        CHECK((repeated > 100 || operation == Operation::gather));
    }
}

TEST_CASE("a request of another kind is not repeated", "[threads]") {
    std::array<float, 4> values{};
    const std::int64_t extent = 4;
    const rueda_tensor tensor{values.data(), &extent, 1, RUEDA_FLOAT32};
    constexpr std::array kRanks{0, 1};
    const Membership set{kRanks, 0};
    const Arguments arguments{.operation = Operation::allreduce, .in = &tensor, .out = &tensor};
    rueda_options options = RUEDA_OPTIONS_INIT;
    Request made;
    REQUIRE(make_request(arguments, set, options, made).is_ok());
    CHECK(repeats(made, arguments, set, options));
    CHECK_FALSE(repeats(Request(), arguments, set, options));
    Request of_group = made;
    of_group.member = 1;
    CHECK_FALSE(repeats(of_group, arguments, set, options));
    Request on_device = made;
    on_device.metadata.device = RUEDA_CUDA;
    CHECK_FALSE(repeats(on_device, arguments, set, options));
    const rueda_device_stream device{RUEDA_CPU, 0, nullptr};
    options.device = &device;
    CHECK_FALSE(repeats(made, arguments, set, options));
    const Arguments allocated{.operation = Operation::allgather, .in = &tensor};
    Request gathered;
    REQUIRE(make_request(allocated, set, RUEDA_OPTIONS_INIT, gathered).is_ok());
    CHECK_FALSE(repeats(gathered, allocated, set, RUEDA_OPTIONS_INIT));
}

}  // namespace
}  // namespace rueda::core
