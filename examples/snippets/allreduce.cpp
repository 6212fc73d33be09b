// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int size = rueda::size();
    const int rank = rueda::rank();

    // Reduces in place. The default operation is the average.
    std::vector<float> loss = {static_cast<float>(rank)};
    rueda::allreduce("loss", loss);
    bool right = loss[0] == static_cast<float>(size - 1) / 2.0F;

    // Reduces from one container into another, with a different operation. Every contiguous container, span or Eigen
    // vector works.
    const std::vector<std::int64_t> seen = {100 + rank, -rank};
    std::vector<std::int64_t> largest(2);
    rueda::allreduce("seen", seen, largest, {.op = rueda::ReduceOp::max});
    right = right && largest[0] == 100 + size - 1 && largest[1] == 0;

    // Scale factors cost no extra time. A view gives the container's elements a shape: here, three rows of two.
    std::vector<double> weights(6, 1.0);
    const rueda::TensorView view(weights.data(), rueda::DType::float64, {3, 2});
    rueda::allreduce("weights", view, {.op = rueda::ReduceOp::sum, .prescale = 0.5, .postscale = 4.0});
    right = right && weights[5] == 0.5 * size * 4.0;

    rueda::shutdown();
    return right ? 0 : 1;
}
