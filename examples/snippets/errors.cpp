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
        rueda::allreduce("tensor", tensor);  // the number of elements differs: 3 on rank 0, 4 on rank 1
    } catch (const rueda::Mismatch& error) {
        refused = true;
        std::printf("%s\n", error.what());  // the text names the ranks and their shapes
    }
    // Only the operation on that tensor failed, on all ranks. Other operations work.
    std::vector<float> other(2, 1.0F);
    rueda::allreduce("other", other, {.op = rueda::ReduceOp::sum});

    const bool right = refused == (rueda::size() > 1) && other[0] == static_cast<float>(rueda::size());
    rueda::shutdown();
    return right ? 0 : 1;
}
