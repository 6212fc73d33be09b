// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int size = rueda::size();
    const int rank = rueda::rank();
    // Rank r has r + 1 values for the last rank, and one value for every other rank.
    std::vector<std::int64_t> splits(static_cast<std::size_t>(size), 1);
    splits.back() = rank + 1;
    const std::vector<std::int32_t> values(static_cast<std::size_t>(size + rank), rank);
    const rueda::Handle handle = rueda::alltoall("values", values, splits);

    // The result is the received rows in the order of the ranks, and the number of rows from each rank.
    const rueda::TensorView all = handle.output();
    const std::int64_t from_last = handle.received_splits()[static_cast<std::size_t>(size - 1)];
    bool right = all.shape().elements() == (rank == size - 1 ? size * (size + 1) / 2 : size) &&
                 from_last == (rank == size - 1 ? size : 1) && static_cast<const std::int32_t*>(all.data())[0] == 0;

    // Without splits every rank gets the same number of rows.
    const std::vector<double> even(static_cast<std::size_t>(3 * size), 0.5);
    const rueda::Handle second = rueda::alltoall_async("even", even);
    second.wait();
    right = right && second.output().shape().elements() == 3 * size;

    // You can also pass memory for the result.
    std::vector<double> exchanged(even.size());
    rueda::alltoall_into("even", even, exchanged);
    right = right && exchanged.back() == 0.5;

    rueda::shutdown();
    return right ? 0 : 1;
}
