// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int size = rueda::size();
    // There are two rows for every rank, and one more row, which the first rank gets.
    const std::int64_t rows = 2 * size + 1;
    std::vector<float> gradient(static_cast<std::size_t>(rows), 1.0F);
    const rueda::Handle handle = rueda::reducescatter("gradient", gradient, {.op = rueda::ReduceOp::sum});

    // The result belongs to the handle.
    const rueda::TensorView mine = handle.output();
    bool right = mine.shape().elements() == (rueda::rank() == 0 ? 3 : 2) &&
                 static_cast<const float*>(mine.data())[1] == static_cast<float>(size);

    // You can also pass memory for the result. The default reduction is the average.
    std::vector<float> shard(rueda::rank() == 0 ? 3 : 2);
    rueda::reducescatter_async("gradient", gradient, shard).wait();
    right = right && shard.back() == 1.0F;

    rueda::shutdown();
    return right ? 0 : 1;
}
