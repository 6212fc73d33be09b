// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<double> value = {1.0};
    {
        const rueda::TensorSlot slot("value");  // operations with a slot need not look up the name
        for (int step = 0; step < 100; ++step) {
            rueda::allreduce(slot, value);
        }
    }
    rueda::allreduce("", value);  // has no name, so the ranks match it by the order of their calls
    const bool right = value[0] == 1.0;
    rueda::shutdown();
    return right ? 0 : 1;
}
