// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int rank = rueda::rank();
    const int size = rueda::size();

    // Rank r contributes r + 1 rows of two; rank 0 gets all of them, in the order of the ranks.
    std::vector<double> mine(static_cast<std::size_t>(rank + 1) * 2, rank);
    const rueda::TensorView rows(mine.data(), rueda::DType::float64, {rank + 1, 2});
    const rueda::Handle handle = rueda::gather("predictions", rows, /*root=*/0);

    bool right = true;
    if (rank == 0) {
        const rueda::TensorView all = handle.output();
        right = all.shape().extents()[0] == size * (size + 1) / 2 && handle.received_splits().back() == size &&
                static_cast<const double*>(all.data())[all.shape().elements() - 1] == size - 1;
    }
    rueda::shutdown();
    return right ? 0 : 1;
}
