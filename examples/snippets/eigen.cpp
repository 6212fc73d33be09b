// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <Eigen/Core>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<float, rueda::Allocator<float>> memory(static_cast<std::size_t>(300 * 200));
    Eigen::Map<Eigen::MatrixXf, Eigen::Aligned64> weights(memory.data(), 300, 200);
    weights.setConstant(static_cast<float>(rueda::rank() + 1));
    rueda::allreduce("weights", memory, {.op = rueda::ReduceOp::max});

    const bool right = (weights.array() == static_cast<float>(rueda::size())).all();
    rueda::shutdown();
    return right ? 0 : 1;
}
