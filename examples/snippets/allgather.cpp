// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int size = rueda::size();
    // Rank r contributes r + 1 values. The first dimension may differ between ranks; the other dimensions must agree.
    const std::vector<std::int32_t> mine(static_cast<std::size_t>(rueda::rank()) + 1, rueda::rank());
    const rueda::Handle handle = rueda::allgather("values", mine);

    // The result is 0, 1, 1, 2, 2, 2, … It belongs to the handle.
    const rueda::TensorView all = handle.output();
    const auto* values = static_cast<const std::int32_t*>(all.data());
    const std::int64_t count = all.shape().elements();
    bool right = count == size * (size + 1) / 2 && values[0] == 0 && values[count - 1] == size - 1;

    // You can also pass memory for the result, which saves the allocation. If it is resident memory, the ranks write
    // into it directly.
    std::vector<std::int32_t, rueda::Allocator<std::int32_t>> into(static_cast<std::size_t>(size * (size + 1) / 2));
    rueda::allgather_into("values", mine, into);
    right = right && into.back() == size - 1;

    rueda::allgather_async("values", mine).wait();
    rueda::shutdown();
    return right ? 0 : 1;
}
