// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<float, rueda::Allocator<float>> gradient(1 << 20, static_cast<float>(rueda::rank()));
    const rueda::Handle handle = rueda::allreduce_async("layer1.weight", gradient);  // average over all ranks
    // … the rest of the backward pass …
    handle.wait();
    rueda::shutdown();
}
