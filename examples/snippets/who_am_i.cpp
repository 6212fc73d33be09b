// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>

int main() {
    rueda::init();
    std::printf("rank %d of %d; local rank %d of %d; cross rank %d of %d\n", rueda::rank(), rueda::size(),
                rueda::local_rank(), rueda::local_size(), rueda::cross_rank(), rueda::cross_size());
    rueda::shutdown();
    return rueda::initialized() ? 1 : 0;
}
