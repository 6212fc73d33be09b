// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<float> gradient(1 << 20, 0.5F);
    rueda::allreduce("layer1.weight", gradient, {.compression = rueda::Compression::bf16});  // half the bytes

    // Small values would be inexact as float16. So they are multiplied by 1024 before they are sent, and divided by
    // 1024 afterwards.
    std::vector<float> small(1000, 0x1p-20F);
    rueda::allreduce("layer2.weight", small,
                     {.prescale = 1024, .postscale = 1.0 / 1024, .compression = rueda::Compression::fp16});

    const bool right = gradient[0] == 0.5F && small[999] == 0x1p-20F;  // both have few digits
    rueda::shutdown();
    return right ? 0 : 1;
}
