// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>

// Every process runs this program. init() makes the processes ranks of one job.
int main() {
    rueda::init();
    std::printf("hello from rank %d of %d\n", rueda::rank(), rueda::size());
    rueda::shutdown();
}
