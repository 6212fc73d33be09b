// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<std::int64_t> seen = {10 + rueda::rank(), 1};
    rueda::reduce("seen", seen, /*root=*/0, {.op = rueda::ReduceOp::sum});  // in place, on rank 0

    const int size = rueda::size();
    const bool right = rueda::rank() == 0 ? seen[0] == 10 * size + size * (size - 1) / 2 && seen[1] == size
                                          : seen[0] == 10 + rueda::rank();
    rueda::shutdown();
    return right ? 0 : 1;
}
