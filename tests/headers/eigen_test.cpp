// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/eigen.hpp"

#include <catch2/catch.hpp>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<std::int64_t> extents(const InputView& tensor) {
    return {tensor.shape().extents().begin(), tensor.shape().extents().end()};
}

TEST_CASE("a matrix is a tensor of its memory") {
    const Eigen::VectorXf vector(5);
    CHECK(extents(tensor_of(vector)) == std::vector<std::int64_t>{5});
    CHECK(tensor_of(vector).dtype() == DType::float32);
    CHECK(tensor_of(vector).data() == vector.data());

    RowMajor row_major(2, 3);
    CHECK(extents(tensor_of(row_major)) == std::vector<std::int64_t>{2, 3});
    CHECK(tensor_of(row_major).dtype() == DType::float64);
    const Eigen::MatrixXi column_major(2, 3);
    CHECK(extents(tensor_of(column_major)) == std::vector<std::int64_t>{3, 2});
    const Eigen::ArrayXXf empty(0, 3);
    CHECK(tensor_of(empty).shape().elements() == 0);
}

template <class Matrix>
using TensorOf = decltype(tensor_of(std::declval<Matrix>()));
template <class View, class... Matrices>
constexpr bool kAreAll = (std::is_same_v<TensorOf<Matrices>, View> && ...);
using Column = decltype(std::declval<Eigen::MatrixXf&>().col(0));
using ConstColumn = decltype(std::declval<const Eigen::MatrixXf&>().col(0));
using ConstMap = Eigen::Map<const Eigen::VectorXf>;
static_assert(kAreAll<TensorView, Eigen::MatrixXf&, Eigen::Map<Eigen::VectorXf>&, Column&, Column>);
static_assert(kAreAll<InputView, const Eigen::MatrixXf&, const Eigen::Map<Eigen::VectorXf>&, ConstColumn, ConstMap>);

TEST_CASE("parts of a matrix are tensors where they are dense") {
    Eigen::MatrixXf matrix(4, 6);
    CHECK(extents(tensor_of(matrix.middleCols(2, 3))) == std::vector<std::int64_t>{3, 4});
    CHECK(tensor_of(matrix.col(5)).data() == &matrix(0, 5));
    CHECK_THROWS_AS(tensor_of(matrix.row(1)), InvalidArgument);
    CHECK_THROWS_WITH(tensor_of(matrix.topRows(2)), Catch::Contains("2 x 6") && Catch::Contains("strides 1 and 4"));
    auto block = matrix.topRows(2);
    CHECK_THROWS_AS(TensorView(block), InvalidArgument);
    const Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<2>> every_other(matrix.data(), 5);
    CHECK_THROWS_AS(tensor_of(every_other), InvalidArgument);
}

TEST_CASE("a tensor is a matrix of its rows") {
    std::vector<double> memory = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const auto matrix = matrix_of<double>({memory.data(), DType::float64, Shape{2, 3, 2}});
    CHECK(matrix.rows() == 2);
    CHECK(matrix.cols() == 6);
    CHECK(matrix(1, 0) == 7);
    CHECK(matrix_of<double>({memory.data(), DType::float64, Shape{}}).size() == 1);
    CHECK(matrix_of<double>({memory.data(), DType::float64, Shape{12}}).cols() == 1);
    CHECK_THROWS_WITH(matrix_of<float>({memory.data(), DType::float64, Shape{12}}),
                      Catch::Contains("float64") && Catch::Contains("float32"));
}

TEST_CASE("a resident matrix owns zeroed memory") {
    init();
    {
        ResidentMatrix<RowMajor> matrix(3, 4);
        CHECK(matrix->isZero());
        CHECK(reinterpret_cast<std::uintptr_t>(matrix->data()) % 64 == 0);
        (*matrix)(2, 3) = 7;
        allreduce("matrix", matrix.tensor(), {.op = ReduceOp::sum, .postscale = 2.0});
        CHECK((*matrix)(2, 3) == 14);
        ResidentMatrix<RowMajor> other = std::move(matrix);
        CHECK((*other)(2, 3) == 14);
        *other = RowMajor::Constant(3, 4, 5);
        CHECK(matrix_of<double>(other.tensor())(0, 0) == 5);
        CHECK_THROWS_AS(ResidentMatrix<RowMajor>(-1, 4), InvalidArgument);
        // The first matrix has 2^64 elements. The second one has 2^61 elements of 8 bytes. If the sizes overflowed,
        // both would be 0 bytes.
        CHECK_THROWS_AS(ResidentMatrix<RowMajor>(Eigen::Index{1} << 32, Eigen::Index{1} << 32), std::bad_alloc);
        CHECK_THROWS_AS(ResidentMatrix<RowMajor>(Eigen::Index{1} << 31, Eigen::Index{1} << 30), std::bad_alloc);
        const ResidentMatrix<RowMajor> nothing(0, 4);
        CHECK(nothing.tensor().shape().elements() == 0);
    }
    shutdown();
}

}  // namespace
}  // namespace rueda
