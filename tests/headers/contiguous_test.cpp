// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "rueda/rueda.hpp"

namespace rueda {
namespace {

/// Looks like a matrix of Eigen: has the same member functions, with strides that the test chooses.
struct Strided {
    std::vector<float> memory = std::vector<float>(100);
    std::int64_t inner_size = 3;
    std::int64_t outer_size = 4;
    std::int64_t inner_stride = 1;
    std::int64_t outer_stride = 3;

    [[nodiscard]] float* data() { return memory.data(); }
    [[nodiscard]] std::int64_t size() const { return inner_size * outer_size; }
    [[nodiscard]] std::int64_t innerSize() const { return inner_size; }      // NOLINT(readability-identifier-naming)
    [[nodiscard]] std::int64_t outerSize() const { return outer_size; }      // NOLINT(readability-identifier-naming)
    [[nodiscard]] std::int64_t innerStride() const { return inner_stride; }  // NOLINT(readability-identifier-naming)
    [[nodiscard]] std::int64_t outerStride() const { return outer_stride; }  // NOLINT(readability-identifier-naming)
};

TEST_CASE("containers are vectors of their elements") {
    std::vector<float> vector(5);
    std::array<std::int64_t, 3> array{};
    CHECK(TensorView(vector).shape().elements() == 5);
    CHECK(TensorView(vector).dtype() == DType::float32);
    CHECK(TensorView(array).shape().ndim() == 1);
    CHECK(TensorView(array).data() == array.data());
}

// A read-only tensor may be an input, but not an output or an in-place tensor.
template <class Values>
constexpr bool kCanBeInput = requires(Values& values) {
    rueda::allgather("x", values);
};
template <class Values>
constexpr bool kCanBeInPlace = requires(Values& values) {
    rueda::allreduce("x", values);
};
template <class Values>
constexpr bool kCanBeOutput = requires(Values& values, const std::vector<float>& in) {
    rueda::allreduce("x", in, values);
};
template <class Values>
constexpr bool kCanBeAll = kCanBeInput<Values>&& kCanBeInPlace<Values>&& kCanBeOutput<Values>;
template <class Values>
constexpr bool kCanOnlyBeInput = kCanBeInput<Values> && !kCanBeInPlace<Values> && !kCanBeOutput<Values>;

static_assert(kCanBeAll<std::vector<float>> && kCanOnlyBeInput<const std::vector<float>>);
static_assert(kCanBeAll<std::array<float, 3>> && kCanOnlyBeInput<const std::array<float, 3>>);
static_assert(kCanBeAll<std::span<float>> && kCanBeAll<const std::span<float>>);
static_assert(kCanOnlyBeInput<std::span<const float>> && kCanOnlyBeInput<const std::span<const float>>);
static_assert(kCanBeAll<TensorView> && kCanBeAll<const TensorView> && kCanOnlyBeInput<InputView>);

TEST_CASE("groups of what is only read are inputs") {
    const std::vector<float> values(3, 2.0F);
    const std::vector<InputView> inputs = {values, values};
    rueda::init();
    const Handle gathered = rueda::grouped_allgather("gathered", inputs);
    const Handle scattered = rueda::grouped_reducescatter("scattered", inputs, {.op = ReduceOp::sum});
    CHECK(static_cast<const float*>(gathered.output(1).data())[2] == 2.0F);
    CHECK(static_cast<const float*>(scattered.output(1).data())[2] == 2.0F);
    rueda::shutdown();
}

TEST_CASE("an object with strides is a tensor only where its elements lie side by side") {
    Strided dense;
    CHECK(TensorView(dense).shape().elements() == 12);
    Strided block{.outer_stride = 10};
    CHECK_THROWS_AS(TensorView(block), InvalidArgument);
    Strided every_other{.inner_stride = 2, .outer_stride = 6};
    CHECK_THROWS_AS(TensorView(every_other), InvalidArgument);
    Strided column{.outer_size = 1, .outer_stride = 10};
    CHECK(TensorView(column).shape().elements() == 3);
    Strided row{.inner_size = 1, .outer_stride = 10};
    CHECK_THROWS_AS(TensorView(row), InvalidArgument);
    Strided nothing{.inner_size = 0, .outer_stride = 10};
    CHECK(TensorView(nothing).shape().elements() == 0);
}

}  // namespace
}  // namespace rueda
