// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int rank = rueda::rank();
    const int size = rueda::size();
    std::vector<std::int32_t> value = {rank + 1};
    rueda::allreduce("value", value, {.op = rueda::ReduceOp::sum});
    std::printf("rank %d of %d: %d\n", rank, size, value[0]);
    rueda::shutdown();
}
