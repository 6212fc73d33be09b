// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cmath>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <string>
#include <vector>

// The backward pass computes one gradient after another. Each gradient is reduced while the next one is computed.
int main() {
    rueda::init();
    constexpr std::size_t kLayers = 4;
    // The ranks of a host reduce memory of this allocator in place, which is faster.
    using Gradient = std::vector<float, rueda::Allocator<float>>;
    std::vector<Gradient> gradients(kLayers, Gradient(100'000));
    std::vector<rueda::Handle> handles;

    for (std::size_t layer = kLayers; layer-- > 0;) {
        for (float& each : gradients[layer]) {  // stands for the computation of a real layer
            each = std::sqrt(static_cast<float>(layer * layer)) * static_cast<float>(rueda::rank() + 1);
        }
        handles.push_back(rueda::allreduce_async("layer" + std::to_string(layer), gradients[layer]));
    }
    for (const rueda::Handle& handle : handles) {
        handle.wait();
    }
    std::printf("rank %d: average of layer 3: %.2f\n", rueda::rank(), gradients[3][0]);
    rueda::shutdown();
}
