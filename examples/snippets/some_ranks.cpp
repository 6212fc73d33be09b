// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();  // all that were launched
    const int launched = rueda::rank();
    std::vector<std::int32_t> part;  // all even ranks if this rank is even, otherwise all odd ranks
    for (int rank = launched % 2; rank < rueda::size(); rank += 2) {
        part.push_back(rank);
    }
    rueda::shutdown();

    rueda::init(part);  // the even ranks form one job, and the odd ranks another job
    std::printf("rank %d of %d, and number %d of the launch\n", rueda::rank(), rueda::size(), launched);
    float sum = 1.0F;
    rueda::allreduce("sum", std::span(&sum, 1), {.op = rueda::ReduceOp::sum});
    const bool right = rueda::rank() == launched / 2 && sum == static_cast<float>(part.size());
    rueda::shutdown();
    return right ? 0 : 1;
}
