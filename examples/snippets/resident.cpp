// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <span>
#include <vector>

int main() {
    rueda::init();
    // A container can have its elements in resident memory.
    std::vector<float, rueda::Allocator<float>> gradient(100'000, 1.0F);
    rueda::allreduce("gradient", gradient, {.op = rueda::ReduceOp::sum});

    // You can also allocate bare memory. It is zeroed and aligned to 64 bytes.
    constexpr std::size_t kCount = 1000;
    auto* memory = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
    const std::span<float> bias(memory, kCount);
    bias[0] = 3.0F;
    rueda::allreduce("bias", bias);

    const bool right = gradient[99'999] == static_cast<float>(rueda::size()) && bias[0] == 3.0F && bias[1] == 0.0F;
    rueda::deallocate(memory);
    rueda::shutdown();
    return right ? 0 : 1;
}
