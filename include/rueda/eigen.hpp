// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Converts between Eigen's matrices and Rueda's tensors. Needs Eigen 3.3 or newer; link Eigen3::Eigen.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "rueda/rueda.hpp"

namespace rueda {

namespace detail {
/// Makes a view of the elements of `dense`, which may be const. Throws InvalidArgument if they are not contiguous.
template <class View, class Dense>
View view_of(Dense& dense) {
    using Derived = std::remove_const_t<Dense>;
    static_assert((Derived::Flags & Eigen::DirectAccessBit) != 0,
                  "an expression has no memory: assign it to a matrix or an array first");
    if (!is_contiguous(dense)) {
        throw InvalidArgument("the Eigen object of " + std::to_string(dense.rows()) + " x " +
                              std::to_string(dense.cols()) + " elements has strides " +
                              std::to_string(dense.innerStride()) + " and " + std::to_string(dense.outerStride()) +
                              ", so it is not dense in memory; copy it into a matrix of its own");
    }
    using Scalar = typename Derived::Scalar;
    if constexpr (Derived::IsVectorAtCompileTime != 0) {
        return {dense.data(), dtype_of<Scalar>, Shape{static_cast<std::int64_t>(dense.size())}};
    } else {
        return {dense.data(), dtype_of<Scalar>,
                Shape{static_cast<std::int64_t>(dense.outerSize()), static_cast<std::int64_t>(dense.innerSize())}};
    }
}
}  // namespace detail

/// Returns the memory of a matrix, vector or map as a tensor, without a copy. A vector has the shape [size], and a
/// row-major matrix has the shape [rows, columns]. A column-major matrix, which is Eigen's default, has the shape
/// [columns, rows]. Operations that divide a tensor along its first dimension therefore divide such a matrix into
/// columns. Throws InvalidArgument if the memory is not dense, for example for a block of a larger matrix, or for a map
/// with strides. Copy such an object into a matrix first.
///
///     Eigen::MatrixXf weights(300, 200);
///     rueda::allreduce("weights", rueda::tensor_of(weights));
template <class Derived>
[[nodiscard]] TensorView tensor_of(Eigen::DenseBase<Derived>& matrix) {
    static_assert((Derived::Flags & Eigen::LvalueBit) != 0,
                  "the matrix is const, and would be written to: it can be an input, tensor_of(std::as_const(matrix))");
    return detail::view_of<TensorView>(matrix.derived());
}
/// Returns the memory of a const matrix as a tensor, without a copy. The tensor can only be an input.
template <class Derived>
[[nodiscard]] InputView tensor_of(const Eigen::DenseBase<Derived>& matrix) {
    return detail::view_of<InputView>(matrix.derived());
}
/// Returns the memory of a block or map as a tensor, without a copy. The block or map may be a temporary object. If its
/// memory is writable, the tensor is writable too.
template <class Derived>
[[nodiscard]] auto tensor_of(Eigen::DenseBase<Derived>&& matrix) {
    using View = std::conditional_t<(Derived::Flags & Eigen::LvalueBit) != 0, TensorView, InputView>;
    return detail::view_of<View>(matrix.derived());
}

/// Returns the tensor's memory as a row-major matrix. The first dimension becomes the rows, and all other dimensions
/// together become the columns. A scalar becomes a 1 x 1 matrix. Throws InvalidArgument if the tensor's elements are
/// not of type `Scalar`. The map is valid as long as the tensor's memory. If the tensor is the output of a handle, this
/// is as long as the handle exists.
///
///     const rueda::Handle all = rueda::allgather("embeddings", rueda::tensor_of(mine));
///     const auto embeddings = rueda::matrix_of<float>(all.output());
template <class Scalar>
[[nodiscard]] Eigen::Map<Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> matrix_of(
    const TensorView& tensor) {
    if (tensor.dtype() != dtype_of<Scalar>) {
        throw InvalidArgument(std::string("the tensor's elements are ") + name_of(tensor.dtype()) +
                              ", and the matrix's would be " + name_of(dtype_of<Scalar>));
    }
    const auto extents = tensor.shape().extents();
    const std::uint64_t columns = detail::count_of_elements(extents.subspan(extents.empty() ? 0 : 1)).value_or(0);
    return {static_cast<Scalar*>(tensor.data()), extents.empty() ? 1 : static_cast<Eigen::Index>(extents[0]),
            static_cast<Eigen::Index>(columns)};
}

/// A matrix in memory that all ranks of the host share, so that they reduce it in place ("resident" memory). A
/// ResidentMatrix is an Eigen map that owns its memory. The memory is zeroed and aligned to 64 bytes. Create a
/// ResidentMatrix after init(). You may move it, and use it until the end of the process, also after shutdown().
///
///     rueda::ResidentMatrix<Eigen::MatrixXf> gradient(300, 200);
///     *gradient = slope * activations.transpose();
///     rueda::allreduce("gradient", gradient.tensor());
template <class Plain>
class ResidentMatrix {
public:
    using Map = Eigen::Map<Plain, Eigen::Aligned64>;

    ResidentMatrix(Eigen::Index rows, Eigen::Index columns)
        : memory_(static_cast<typename Plain::Scalar*>(rueda::allocate(bytes(rows, columns)))),
          map_(std::make_unique<Map>(memory_.get(), rows, columns)) {}

    [[nodiscard]] Map& operator*() const noexcept { return *map_; }
    [[nodiscard]] Map* operator->() const noexcept { return map_.get(); }
    [[nodiscard]] TensorView tensor() const { return tensor_of(*map_); }

private:
    struct Free {
        void operator()(typename Plain::Scalar* memory) const noexcept { rueda_deallocate(memory); }
    };
    static std::size_t bytes(Eigen::Index rows, Eigen::Index columns) {
        if (rows < 0 || columns < 0) {
            throw InvalidArgument("a matrix of " + std::to_string(rows) + " x " + std::to_string(columns) +
                                  " elements; both must not be negative");
        }
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), &bytes) ||
            __builtin_mul_overflow(bytes, sizeof(typename Plain::Scalar), &bytes)) {
            throw std::bad_alloc();  // Eigen also throws std::bad_alloc for a matrix that is too large
        }
        return bytes;
    }

    std::unique_ptr<typename Plain::Scalar, Free> memory_;
    std::unique_ptr<Map> map_;  // a pointer, because assigning to a Map would copy the elements
};

}  // namespace rueda
