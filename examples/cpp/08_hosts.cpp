// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <vector>

// Runs on several hosts. Ranks of one host share memory; hosts exchange messages. Only two things are different for the
// program: local_rank() tells it which device of its host to use, and a gradient may be compressed between hosts.
int main() {
    rueda::init();
    std::printf("rank %d of %d: local rank %d of %d on host %d of %d\n", rueda::rank(), rueda::size(),
                rueda::local_rank(), rueda::local_size(), rueda::cross_rank(), rueda::cross_size());

    std::vector<float> gradient(1 << 20, 0.5F);
    rueda::allreduce("gradient", gradient, {.compression = rueda::Compression::bf16});  // half the bytes between hosts
    std::printf("rank %d: average %.2f\n", rueda::rank(), gradient[0]);
    rueda::shutdown();
}
