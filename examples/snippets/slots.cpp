// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <rueda/rueda.hpp>
#include <vector>

int main() {
    rueda::init();
    std::vector<double> value = {1.0};
    {
        const rueda::TensorSlot slot("value");  // saves the look-up of the name
        for (int step = 0; step < 100; ++step) {
            rueda::allreduce(slot, value);
        }
    }
    rueda::allreduce("", value);  // without a name: matched by the order of the calls
    const bool right = value[0] == 1.0;
    rueda::shutdown();
    return right ? 0 : 1;
}
