// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int size = rueda::size();
    // Rank r brings r + 1 values: the first dimension may differ, the others must agree.
    const std::vector<std::int32_t> mine(static_cast<std::size_t>(rueda::rank()) + 1, rueda::rank());
    const rueda::Handle handle = rueda::allgather("values", mine);

    // The result belongs to the handle: 0, 1, 1, 2, 2, 2, …
    const rueda::TensorView all = handle.output();
    const auto* values = static_cast<const std::int32_t*>(all.data());
    const std::int64_t count = all.shape().elements();
    bool right = count == size * (size + 1) / 2 && values[0] == 0 && values[count - 1] == size - 1;

    // The result can also go into memory of your own, which saves the allocation. Resident memory is written in place.
    std::vector<std::int32_t, rueda::Allocator<std::int32_t>> into(static_cast<std::size_t>(size * (size + 1) / 2));
    rueda::allgather_into("values", mine, into);
    right = right && into.back() == size - 1;

    rueda::allgather_async("values", mine).wait();
    rueda::shutdown();
    return right ? 0 : 1;
}
