// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    bool refused = false;
    std::vector<float> tensor(rueda::rank() == 0 ? 3 : 4, 1.0F);
    try {
        rueda::allreduce("tensor", tensor);  // with two ranks, 3 elements here and 4 there
    } catch (const rueda::Mismatch& error) {
        refused = true;
        std::printf("%s\n", error.what());  // names the ranks and their shapes
    }
    // Only that tensor failed, on all ranks.
    std::vector<float> other(2, 1.0F);
    rueda::allreduce("other", other, {.op = rueda::ReduceOp::sum});

    const bool right = refused == (rueda::size() > 1) && other[0] == static_cast<float>(rueda::size());
    rueda::shutdown();
    return right ? 0 : 1;
}
