// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int batches = 10 + rueda::rank();  // each rank has a different number of batches
    std::vector<float> gradient(1000);
    for (int batch = 0; batch < batches; ++batch) {
        gradient.assign(gradient.size(), 1.0F);
        rueda::allreduce("gradient", gradient);  // also works while other ranks have no batches left
    }
    const int last = rueda::join();  // returns when all ranks have called join()
    const bool as_expected = last == rueda::size() - 1;
    rueda::shutdown();
    return as_expected ? 0 : 1;
}
