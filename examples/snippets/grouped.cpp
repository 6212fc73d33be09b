// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<float> weight(1000, 1.0F);
    std::vector<float> bias(10, 2.0F);
    const std::vector<rueda::TensorView> layer = {weight, bias};

    rueda::grouped_allreduce("layer1", layer, {.op = rueda::ReduceOp::sum});
    const rueda::Handle handle = rueda::grouped_allreduce_async("layer1", layer);  // one handle for all of them
    handle.wait();

    const auto size = static_cast<float>(rueda::size());
    const bool right = weight[999] == size && bias[9] == 2.0F * size;
    rueda::shutdown();
    return right ? 0 : 1;
}
