// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <chrono>
#include <rueda/rueda.hpp>
#include <string>
#include <vector>

int main() {
    rueda::init();
    constexpr std::size_t kLayers = 4;
    std::vector<std::vector<float>> gradients(kLayers, std::vector<float>(10'000, 1.0F));
    std::vector<rueda::Handle> handles;

    // In a backward pass the gradient of the last layer is ready first. The order may differ between ranks.
    for (std::size_t i = 0; i < kLayers; ++i) {
        const std::size_t layer = rueda::rank() % 2 == 0 ? kLayers - 1 - i : i;
        handles.push_back(
            rueda::allreduce_async("gradient" + std::to_string(layer), gradients[layer], {.op = rueda::ReduceOp::sum}));
    }
    // ready() does not block. wait_for() throws rueda::Timeout when its time is over; the operation then continues.
    while (!handles[0].ready()) {
        try {
            handles[0].wait_for(std::chrono::milliseconds(10));
        } catch (const rueda::Timeout&) {
        }
    }
    for (const rueda::Handle& handle : handles) {
        handle.wait();
    }
    const bool right = gradients[0][0] == static_cast<float>(rueda::size());
    rueda::shutdown();
    return right ? 0 : 1;
}
