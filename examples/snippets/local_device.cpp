// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdio>
#include <rueda/rueda.hpp>

int main() {
    rueda::init();
    try {
        const int device = rueda::local_device();  // then cudaSetDevice(device)
        std::printf("local rank %d uses GPU %d\n", rueda::local_rank(), device);
    } catch (const rueda::Unsupported& error) {
        std::printf("no GPU: %s\n", error.what());
    }
    rueda::shutdown();
}
