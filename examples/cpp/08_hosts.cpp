// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <vector>

// Runs on several hosts. The ranks of a host share memory, and hosts exchange messages. For the program, only two
// things are different: local_rank() tells which device of the host to use, and gradients may be compressed between
// hosts.
int main() {
    rueda::init();
    std::printf("rank %d of %d: local rank %d of %d on host %d of %d\n", rueda::rank(), rueda::size(),
                rueda::local_rank(), rueda::local_size(), rueda::cross_rank(), rueda::cross_size());

    std::vector<float> gradient(1 << 20, 0.5F);
    rueda::allreduce("gradient", gradient, {.compression = rueda::Compression::bf16});  // half the bytes between hosts
    std::printf("rank %d: average %.2f\n", rueda::rank(), gradient[0]);
    rueda::shutdown();
}
