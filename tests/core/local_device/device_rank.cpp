// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank that asks which GPU it should use, and prints the GPU or the error. Then it prints which CUDA libraries its
// process has mapped.
#include <cstdio>
#include <fstream>
#include <rueda/rueda.hpp>
#include <string>

int main() {
    int device = -1;
    if (rueda_local_device(&device) != RUEDA_NOT_INITIALIZED) {
        return 1;
    }
    rueda::init();
    std::string found;
    try {
        found = "device " + std::to_string(rueda::local_device());
    } catch (const rueda::Unsupported& error) {
        found = std::string("Unsupported: ") + error.what();
    } catch (const rueda::InvalidArgument& error) {
        found = std::string("InvalidArgument: ") + error.what();
    }
    std::ifstream maps("/proc/self/maps");
    std::string libraries;
    for (std::string line; std::getline(maps, line);) {
        for (const char* const name : {"libcuda.so", "libcudart", "libnccl", "libnvidia-ml.so"}) {
            if (line.find(name) != std::string::npos && libraries.find(name) == std::string::npos) {
                libraries += std::string(" ") + name;
            }
        }
    }
    std::printf("%s |%s\n", found.c_str(), libraries.c_str());
    const bool refuses_null = rueda_local_device(nullptr) == RUEDA_INVALID_ARGUMENT;
    rueda::shutdown();
    return refuses_null ? 0 : 1;
}
