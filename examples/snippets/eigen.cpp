// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/eigen.hpp>

int main() {
    rueda::init();
    // A matrix in resident memory is an Eigen map that owns its memory.
    rueda::ResidentMatrix<Eigen::MatrixXf> weights(300, 200);
    weights->setConstant(static_cast<float>(rueda::rank() + 1));
    rueda::allreduce("weights", weights.tensor(), {.op = rueda::ReduceOp::max});
    bool right = (weights->array() == static_cast<float>(rueda::size())).all();

    // Any dense matrix can be a tensor, and a result can be used as a matrix. allgather concatenates the rows of a
    // row-major matrix.
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const RowMajor mine = RowMajor::Constant(2, 3, rueda::rank());
    const rueda::Handle handle = rueda::allgather("embeddings", rueda::tensor_of(mine));
    const auto everyones = rueda::matrix_of<double>(handle.output());  // valid while the handle lives
    right = right && everyones.rows() == 2 * rueda::size() && everyones(everyones.rows() - 1, 2) == rueda::size() - 1;

    rueda::shutdown();
    return right ? 0 : 1;
}
