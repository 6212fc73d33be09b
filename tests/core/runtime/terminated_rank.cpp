// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A program for two ranks under mpirun. Rank 1 is killed. Rank 0 computes or waits for rank 1 until mpirun ends rank 0.
// Usage: terminated_rank silent|handler|waiting
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <span>
#include <string_view>

#include "rueda/rueda.hpp"

namespace {

/// The program's own handler of SIGTERM prints a line and ends the process.
void handle(int /*number*/) {
    constexpr std::string_view kText = "the program's handler\n";
    _exit(::write(STDERR_FILENO, kText.data(), kText.size()) > 0 ? 5 : 6);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "silent";
    if (mode == "handler") {
        ::signal(SIGTERM, &handle);
    }
    try {
        rueda::init();
        float value = 1;
        rueda::allreduce("first", std::span(&value, 1));
        if (rueda::rank() == 1) {
            std::fprintf(stderr, "pid of rank 1: %d\n", static_cast<int>(::getpid()));
            ::kill(::getpid(), SIGKILL);
        }
        if (mode == "waiting") {
            rueda::allreduce("second", std::span(&value, 1));
        }
        for (;;) {
            ::pause();
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        for (;;) {
            ::pause();
        }
    }
}
