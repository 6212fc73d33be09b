// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Compares sparse allreduces with dense sums that the test computes.
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

/// The rows that a rank has, of a tensor of shape (5, 4, 3). Some indices occur twice. Rank 0 has no rows.
struct Part {
    std::vector<std::int32_t> indices;
    std::vector<double> values;
};

Part part_of(int rank, int round, std::int64_t along) {
    std::mt19937 random(static_cast<unsigned>(100 * round + rank));
    const auto below = [&random](int limit) { return static_cast<std::int32_t>(random() % unsigned(limit)); };
    Part part;
    for (int i = 0; i < 4 * rank; ++i) {
        part.indices.push_back(below(5));
        if (along == 2) {
            part.indices.push_back(below(4));
        }
        for (int j = 0; j < (along == 2 ? 3 : 12); ++j) {
            part.values.push_back(below(100) - 50);
        }
    }
    return part;
}

/// Returns the sum of all ranks' rows for each index.
std::map<std::vector<std::int64_t>, std::vector<double>> dense_sums(int size, int round, std::int64_t along) {
    std::map<std::vector<std::int64_t>, std::vector<double>> sums;
    const std::size_t row = along == 2 ? 3 : 12;
    for (int rank = 0; rank < size; ++rank) {
        const Part part = part_of(rank, round, along);
        const auto k = static_cast<std::size_t>(along);
        for (std::size_t i = 0; i < part.indices.size() / k; ++i) {
            std::vector<double>& sum = sums[{part.indices.begin() + static_cast<std::ptrdiff_t>(i * k),
                                             part.indices.begin() + static_cast<std::ptrdiff_t>((i + 1) * k)}];
            sum.resize(row);
            for (std::size_t j = 0; j < row; ++j) {
                sum[j] += part.values[i * row + j];
            }
        }
    }
    return sums;
}

void check_round(int round, std::int64_t along, bool blocking, ReduceOp op) {
    const Part part = part_of(rueda::rank(), round, along);
    const std::int64_t rows = static_cast<std::int64_t>(part.indices.size()) / along;
    const InputView indices = along == 2 ? InputView(part.indices.data(), DType::int32, {rows, 2})
                                         : InputView(part.indices.data(), DType::int32, {rows});
    const InputView values = along == 2 ? InputView(part.values.data(), DType::float64, {rows, 3})
                                        : InputView(part.values.data(), DType::float64, {rows, 4, 3});
    Handle handle = blocking ? rueda::sparse_allreduce("sparse", indices, values, {5, 4, 3}, {.op = op})
                             : rueda::sparse_allreduce_async("sparse", indices, values, {5, 4, 3}, {.op = op});
    handle.wait();
    const auto sums = dense_sums(rueda::size(), round, along);
    const TensorView places = handle.output(0);
    const TensorView found = handle.output(1);
    RUEDA_RANK_CHECK(places.dtype() == DType::int64);
    RUEDA_RANK_EQUAL(places.shape().ndim(), static_cast<std::int32_t>(along));
    RUEDA_RANK_EQUAL(places.shape().extents()[0], static_cast<std::int64_t>(sums.size()));
    RUEDA_RANK_EQUAL(found.shape().extents()[0], static_cast<std::int64_t>(sums.size()));
    RUEDA_RANK_EQUAL(found.shape().ndim(), along == 2 ? 2 : 3);
    const auto* place = static_cast<const std::int64_t*>(places.data());
    const auto* value = static_cast<const double*>(found.data());
    const double divisor = op == ReduceOp::average ? rueda::size() : 1;
    for (const auto& [expected_place, row] : sums) {
        for (const std::int64_t index : expected_place) {
            RUEDA_RANK_EQUAL(*place++, index);
        }
        for (const double sum : row) {
            RUEDA_RANK_EQUAL(*value++, sum / divisor);
        }
    }
    RUEDA_RANK_CHECK(handle.output(1).data() == found.data());
    try {
        static_cast<void>(handle.output(2));
        RUEDA_RANK_CHECK(false);
    } catch (const InvalidArgument&) {
    }
}

TEST_CASE("sparse tensors are those of dense sums", "[processes]") {
    const int size = GENERATE(1, 2, 4);  // with these sizes (powers of two), averages are exact
    check_passed(run_public_ranks(size, [](RankContext&) {
        rueda::init();
        for (int round = 0; round < 8; ++round) {
            check_round(round, round % 2 + 1, round % 3 == 0, round < 4 ? ReduceOp::sum : ReduceOp::average);
        }
        rueda::shutdown();
    }));
}

/// Reduces one row, which has the same index on all ranks.
template <class T>
T reduced(T mine, DType dtype, ReduceOp op, const std::string& name) {
    const std::uint8_t place = 3;
    const Handle handle = rueda::sparse_allreduce(name, std::span(&place, 1), InputView(&mine, dtype, {1}), {4}, {op});
    RUEDA_RANK_EQUAL(*static_cast<const std::int64_t*>(handle.output(0).data()), std::int64_t{3});
    return *static_cast<const T*>(handle.output(1).data());
}

TEST_CASE("sparse reductions are exact of integers, and rounded once of small floats", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        rueda::init();
        constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
        RUEDA_RANK_EQUAL(reduced<std::int64_t>(kMost, DType::int64, ReduceOp::average, "average"), kMost);
        RUEDA_RANK_EQUAL(reduced<std::int64_t>(kMost, DType::int64, ReduceOp::sum, "sum"),
                         kMost - 2);  // the sum wraps around
        RUEDA_RANK_EQUAL(reduced<std::int32_t>(context.rank() == 0 ? -4 : 0, DType::int32, ReduceOp::average, "i"), -1);
        RUEDA_RANK_EQUAL(reduced<std::uint64_t>(~std::uint64_t{0}, DType::uint64, ReduceOp::average, "u"),
                         ~std::uint64_t{0});
        // In float16, 2048 + 1 + 1 would be 2048; the sum must be computed in a wider type.
        const std::uint16_t two_to_11 = 0x6800;
        const std::uint16_t one = 0x3C00;
        RUEDA_RANK_EQUAL(
            reduced<std::uint16_t>(context.rank() == 0 ? two_to_11 : one, DType::float16, ReduceOp::sum, "h"),
            std::uint16_t{0x6801});  // 2050 in float16
        rueda::shutdown();
    }));
}

TEST_CASE("ranks that disagree about a sparse allreduce are all told so, and the next one works", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        rueda::init();
        const std::vector<std::int64_t> places = {1, 2};
        const std::vector<float> values = {1, 2};
        const std::int64_t extent = context.rank() == 1 ? 6 : 5;
        const std::string text =
            "sparse allreduce 'x': the ranks disagree: ranks 0, 2: average of shape (5,); rank 1: "
            "average of shape (6,)";
        RUEDA_RANK_EQUAL(
            refused<Mismatch>([&] { static_cast<void>(rueda::sparse_allreduce("x", places, values, {extent})); }),
            text);
        // The error must reach the caller through the handle, through the queries, and through a callback.
        const Handle handle = rueda::sparse_allreduce_async("x", places, values, {extent});
        std::promise<std::string> told;
        handle.on_completion([&](std::exception_ptr failure) {
            told.set_value(refused<Mismatch>([&] {
                if (failure != nullptr) {
                    std::rethrow_exception(failure);
                }
            }));
        });
        RUEDA_RANK_EQUAL(refused<Mismatch>([&] { handle.wait(); }), text);
        RUEDA_RANK_EQUAL(told.get_future().get(), text);
        RUEDA_RANK_EQUAL(refused<Mismatch>([&] { static_cast<void>(handle.output(0)); }), text);
        const auto op = context.rank() == 0 ? ReduceOp::sum : ReduceOp::average;
        RUEDA_RANK_EQUAL(
            refused<Mismatch>([&] { static_cast<void>(rueda::sparse_allreduce("x", places, values, {5}, {op})); }),
            std::string("sparse allreduce 'x': the ranks disagree: rank 0: sum of shape (5,); ranks 1, 2: "
                        "average of shape (5,)"));
        const Handle again = rueda::sparse_allreduce("x", places, values, {5}, {ReduceOp::sum});
        RUEDA_RANK_EQUAL(static_cast<const float*>(again.output(1).data())[1], 6.0F);
        rueda::shutdown();
    }));
}

TEST_CASE("a sparse allreduce that no rank can execute fails on all ranks", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        rueda::init();
        const std::vector<std::int64_t> places = {0, 4};
        const std::vector<float> values = {1, 2};
        const bool flags[2] = {true, false};
        RUEDA_RANK_EQUAL(refused<InvalidArgument>([&] {
                             static_cast<void>(rueda::sparse_allreduce("x", places, values, {5}, {ReduceOp::max}));
                         }),
                         std::string("sparse allreduce 'x': the reduce operation is max; expected sum or average"));
        RUEDA_RANK_EQUAL(
            refused<Unsupported>(
                [&] { static_cast<void>(rueda::sparse_allreduce("x", places, std::span<const bool>(flags), {5})); }),
            std::string("sparse allreduce 'x': there is no average of bool; use an integer dtype to count"));
        const auto with_factors = [&](double prescale, double postscale) {
            const std::int64_t extent = 5;
            const InputView index_view(places);
            const InputView value_view(values);
            const rueda_tensor indices = index_view.c_tensor();
            const rueda_tensor given = value_view.c_tensor();
            rueda_options options = RUEDA_OPTIONS_INIT;
            options.prescale = prescale;
            options.postscale = postscale;
            rueda_handle* handle = nullptr;
            return rueda_sparse_allreduce("x", &indices, &given, &extent, 1, &options, &handle);
        };
        RUEDA_RANK_EQUAL(with_factors(2, 0.5), static_cast<int>(RUEDA_UNSUPPORTED));
        RUEDA_RANK_EQUAL(
            std::string(rueda_last_error()),
            std::string("sparse allreduce 'x': it has the factors 2 and 0.5; expected none: multiply the values"));
        RUEDA_RANK_EQUAL(with_factors(context.rank() == 0 ? 1 : 3, 1), static_cast<int>(RUEDA_MISMATCH));
        RUEDA_RANK_EQUAL(std::string(rueda_last_error()),
                         std::string("sparse allreduce 'x': the ranks disagree: rank 0: average of shape (5,); rank 1: "
                                     "average with the factors 3 and 1 of shape (5,)"));
        const auto op = context.rank() == 0 ? ReduceOp::max : ReduceOp::sum;
        RUEDA_RANK_EQUAL(
            refused<Mismatch>([&] { static_cast<void>(rueda::sparse_allreduce("x", places, values, {5}, {op})); }),
            std::string(
                "sparse allreduce 'x': the ranks disagree: rank 0: max of shape (5,); rank 1: sum of shape (5,)"));
        const Handle again = rueda::sparse_allreduce("x", places, values, {5}, {ReduceOp::sum});
        RUEDA_RANK_EQUAL(static_cast<const float*>(again.output(1).data())[1], 4.0F);
        rueda::shutdown();
    }));
}

TEST_CASE("a sparse allreduce in a set of some ranks, and of nothing at all", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext&) {
        const auto sets = rueda::init_with({.process_sets = {{0, 2}}});
        if (sets[0].included()) {
            const std::vector<std::int64_t> place = {rueda::rank()};
            const std::vector<float> value = {4};
            const Handle handle = rueda::sparse_allreduce("x", place, value, {3}, {.process_set = sets[0]});
            RUEDA_RANK_EQUAL(handle.output(0).shape().elements(), std::int64_t{2});
            // The average counts the members of the set only.
            RUEDA_RANK_EQUAL(static_cast<const float*>(handle.output(1).data())[1], 2.0F);
        }
        const std::vector<std::int64_t> none;
        const std::vector<float> nothing;
        const Handle handle = rueda::sparse_allreduce("none", none, nothing, {7});
        RUEDA_RANK_EQUAL(handle.output(0).shape().elements(), std::int64_t{0});
        RUEDA_RANK_EQUAL(handle.output(1).shape().elements(), std::int64_t{0});
        rueda::shutdown();
    }));
}

TEST_CASE("invalid arguments of a sparse allreduce are refused at once", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        rueda::init();
        const std::vector<std::int64_t> places = {0, 4};
        const std::vector<float> values = {1, 2};
        const auto told = [&](const InputView& indices, const InputView& given, const Shape& shape,
                              const SparseOptions& options = {}) {
            return refused<InvalidArgument>(
                [&] { static_cast<void>(rueda::sparse_allreduce("x", indices, given, shape, options)); });
        };
        RUEDA_RANK_EQUAL(
            told(places, values, {4}),
            std::string("sparse allreduce 'x': the index 4 lies outside of the shape (4,); expected 0 to 3"));
        RUEDA_RANK_EQUAL(
            told(places, values, {5, 2}),
            std::string("sparse allreduce 'x': the values have the shape (2,); expected (2, 2), for 2 places "
                        "in (5, 2)"));
        RUEDA_RANK_CHECK(told(values, values, {5}).find("expected whole numbers of shape [n] or [n, k]") !=
                         std::string::npos);
        RUEDA_RANK_CHECK(told(places, values, {5}, {static_cast<ReduceOp>(6)})
                             .find("the reduce operation of a sparse allreduce is 6") != std::string::npos);
        RUEDA_RANK_CHECK(
            told(InputView(places.data(), DType::int64, {1, 2}), InputView(values.data(), DType::float32, {1}), {5})
                .find("the indices are places along 2 dimensions, and the shape (5,) has 1") != std::string::npos);
        RUEDA_RANK_CHECK(told(places, values, {-5}).find("the shape is (-5,); expected extents from 0 on") !=
                         std::string::npos);
        RUEDA_RANK_CHECK(told(InputView(nullptr, DType::int64, {2}), values, {5}).find("no data (a null pointer)") !=
                         std::string::npos);
        const std::int64_t extent = 5;
        rueda_handle* handle = nullptr;
        const InputView view(places);
        const rueda_tensor c_places = view.c_tensor();  // the C tensor points into `view`
        RUEDA_RANK_EQUAL(rueda_sparse_allreduce("x", nullptr, nullptr, &extent, 1, nullptr, &handle),
                         RUEDA_INVALID_ARGUMENT);
        RUEDA_RANK_EQUAL(rueda_sparse_allreduce("x", &c_places, nullptr, &extent, 1, nullptr, &handle),
                         RUEDA_INVALID_ARGUMENT);
        RUEDA_RANK_EQUAL(rueda_sparse_allreduce("x", &c_places, &c_places, nullptr, 1, nullptr, &handle),
                         RUEDA_INVALID_ARGUMENT);
        RUEDA_RANK_EQUAL(rueda_sparse_allreduce("x", &c_places, &c_places, &extent, 1, nullptr, nullptr),
                         RUEDA_INVALID_ARGUMENT);
        RUEDA_RANK_EQUAL(rueda_sparse_allreduce(nullptr, &c_places, &c_places, &extent, 1, nullptr, &handle),
                         RUEDA_INVALID_ARGUMENT);
        rueda::shutdown();
    }));
}

}  // namespace
}  // namespace rueda::tests
