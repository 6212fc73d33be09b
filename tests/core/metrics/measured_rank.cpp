// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank of the jobs that endpoint_test.py measures. Usage: measured_rank MODE STOP_FILE. The rank does a known amount
// of work, prints "worked", and waits until STOP_FILE exists. MODE is one of:
//   work   the job ends after STOP_FILE exists
//   abort  rank 1 aborts the job at the end of its work
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <string_view>
#include <thread>
#include <vector>

namespace {

void wait_for_file(const char* file) {
    while (access(file, F_OK) != 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

bool has_default_sigpipe() {
    struct sigaction action {};
    return sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        return 2;
    }
    const std::string_view mode = argv[1];
    signal(SIGPIPE, SIG_DFL);  // NOLINT(cert-err33-c): Python starts this rank with SIGPIPE ignored
    rueda::init();
    std::vector<float> gradient(16384, 1.0F);
    std::vector<std::int32_t> number(1);
    for (std::int64_t step = 0; step < 10; ++step) {
        rueda::begin_step(step);
        rueda::allreduce("gradient", gradient);
        rueda::broadcast("number", number, 0);
    }
    try {
        rueda::barrier();
    } catch (const rueda::Aborted&) {
        if (mode != "abort") {  // in mode "abort", rank 1 may abort the job before this rank has left the barrier
            return 4;
        }
    }
    if (mode == "abort" && rueda::rank() == 1) {
        rueda::abort("the test ends the job");
    }
    if (rueda::rank() == 0) {
        std::puts("worked");
        std::fflush(stdout);
    }
    wait_for_file(argv[2]);
    try {
        rueda::shutdown();
    } catch (const rueda::Error&) {
        return 1;
    }
    return has_default_sigpipe() ? 0 : 3;
}
