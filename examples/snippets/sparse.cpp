// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    const int rank = rueda::rank();
    const int size = rueda::size();

    // This is the gradient of an embedding of 1000 words. This rank's batch had the words 7 and 100 + rank.
    const std::vector<std::int64_t> words = {100 + rank, 7};
    const std::vector<float> gradient(2 * 16, 1.0F);
    const rueda::InputView rows(gradient.data(), rueda::DType::float32, {2, 16});
    const rueda::Handle handle =
        rueda::sparse_allreduce("embedding", words, rows, {1000, 16}, {.op = rueda::ReduceOp::sum});

    // Output 0 has the words of all ranks, in ascending order and without repetitions. Output 1 has the row of each
    // word. Both outputs belong to the handle.
    const rueda::TensorView all_words = handle.output(0);
    const auto* const word = static_cast<const std::int64_t*>(all_words.data());
    const auto* const total = static_cast<const float*>(handle.output(1).data());
    const bool right = all_words.shape().elements() == 1 + size && word[0] == 7 && word[size] == 99 + size &&
                       total[0] == static_cast<float>(size) && total[16] == 1.0F;

    rueda::shutdown();
    return right ? 0 : 1;
}
