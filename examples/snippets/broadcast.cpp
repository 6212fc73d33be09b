// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<float> parameters(100, rueda::rank() == 0 ? 0.25F : 0.0F);
    rueda::broadcast("parameters", parameters, /*root=*/0);

    std::vector<double> seed = {static_cast<double>(rueda::rank())};
    const int last = rueda::size() - 1;
    const rueda::Handle handle = rueda::broadcast_async("seed", seed, last);
    handle.wait();

    const bool right = parameters[99] == 0.25F && seed[0] == last;
    rueda::shutdown();
    return right ? 0 : 1;
}
