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
    const rueda::Handle handle = rueda::grouped_allreduce_async("layer1", layer);  // one handle for all members
    handle.wait();
    const auto size = static_cast<float>(rueda::size());
    bool right = weight[999] == size && bias[9] == 2.0F * size;

    const rueda::Handle all = rueda::grouped_allgather("all of layer1", layer);
    right = right && all.output(1).shape().extents()[0] == 10 * rueda::size();  // every rank's bias

    const rueda::Handle mine = rueda::grouped_reducescatter("my part of layer1", layer);
    right = right && static_cast<const float*>(mine.output(0).data())[0] == size;  // the average of equal weights

    rueda::shutdown();
    return right ? 0 : 1;
}
