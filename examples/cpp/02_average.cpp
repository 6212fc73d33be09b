// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <vector>

// Averages a vector over all ranks, in place. Rueda matches the ranks' calls by the name "gradient".
int main() {
    rueda::init();
    std::vector<float> gradient(1000, static_cast<float>(rueda::rank()));
    rueda::allreduce("gradient", gradient);  // the default is ReduceOp::average
    std::printf("rank %d: average %.2f\n", rueda::rank(), gradient[0]);
    rueda::shutdown();
}
