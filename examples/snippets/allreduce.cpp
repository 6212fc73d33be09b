// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int size = rueda::size();
    const int rank = rueda::rank();

    // In place; the average is the default.
    std::vector<float> loss = {static_cast<float>(rank)};
    rueda::allreduce("loss", loss);
    bool right = loss[0] == static_cast<float>(size - 1) / 2.0F;

    // From one container into another, with another operation. Any contiguous container, span or Eigen vector will do.
    const std::vector<std::int64_t> seen = {100 + rank, -rank};
    std::vector<std::int64_t> largest(2);
    rueda::allreduce("seen", seen, largest, {.op = rueda::ReduceOp::max});
    right = right && largest[0] == 100 + size - 1 && largest[1] == 0;

    // Scale factors cost nothing extra. A view gives the tensor a shape that the container does not have: here, three
    // rows of two.
    std::vector<double> weights(6, 1.0);
    const rueda::TensorView view(weights.data(), rueda::DType::float64, {3, 2});
    rueda::allreduce("weights", view, {.op = rueda::ReduceOp::sum, .prescale = 0.5, .postscale = 4.0});
    right = right && weights[5] == 0.5 * size * 4.0;

    rueda::shutdown();
    return right ? 0 : 1;
}
