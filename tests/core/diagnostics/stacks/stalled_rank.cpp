// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A program for two ranks. Rank 1 does not take part in rank 0's operation until a file exists. Usage: stalled_rank
// FILE
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <span>

#include "rueda/rueda.hpp"

[[gnu::noinline, gnu::visibility("default")]] int wait_for_the_file(const char* path) {
    int looks = 0;
    while (::access(path, F_OK) != 0) {
        ::usleep(50'000);
        ++looks;
    }
    return looks;
}

int main(int argc, char** argv) {
    if (argc != 2) {
        return 2;
    }
    try {
        rueda::init();
        if (rueda::rank() == 1) {
            std::printf("rank 1 looked %d times\n", wait_for_the_file(argv[1]));
        }
        float value = 1;
        rueda::allreduce("loss", std::span(&value, 1));
        rueda::shutdown();
        return value == 1 ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
