// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "standing.hpp"

#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "rueda/rueda.hpp"

namespace rueda::bench {

std::uint64_t proportional_bytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string word;
    while (file >> word) {
        if (word == "Pss:") {
            std::uint64_t kilobytes = 0;
            file >> kilobytes;
            return kilobytes * 1024;
        }
    }
    return 0;
}

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double idle_cpu_percent(double seconds) {
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return 100 * (cpu_seconds() - before) / seconds;
}

double waiting_cpu_percent(double seconds, int rank) {
    rueda::barrier();
    const double before = cpu_seconds();
    if (rank == 0) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    rueda::barrier();
    return 100 * (cpu_seconds() - before) / seconds;
}

}  // namespace rueda::bench
