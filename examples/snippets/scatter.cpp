// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int rank = rueda::rank();

    // Rank 0 has the samples: one for itself, and two for every other rank. The other ranks only give the dtype and the
    // shape of a row.
    std::vector<std::int64_t> splits(static_cast<std::size_t>(rueda::size()), 2);
    splits[0] = 1;
    const std::int64_t rows = rank == 0 ? 2 * rueda::size() - 1 : 0;
    std::vector<float> samples(static_cast<std::size_t>(rows) * 3);
    for (std::size_t i = 0; i < samples.size(); ++i) {
        samples[i] = static_cast<float>(i / 3);
    }
    const rueda::TensorView view(samples.data(), rueda::DType::float32, {rows, 3});
    const rueda::Handle handle = rueda::scatter("samples", view, splits, /*root=*/0);

    const rueda::TensorView mine = handle.output();
    const float first = rank == 0 ? 0.0F : static_cast<float>(2 * rank - 1);
    const bool right = mine.shape().extents()[0] == splits[static_cast<std::size_t>(rank)] &&
                       static_cast<const float*>(mine.data())[0] == first;
    rueda::shutdown();
    return right ? 0 : 1;
}
