// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank of a stalled job, for stalled_job_test.py. Usage: stalled_job SCENARIO
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"

namespace {

void reduce(const std::string& name) {
    float value = 1;
    rueda::allreduce(name, std::span(&value, 1));
}

[[noreturn]] void wait_for_the_end() {
    for (;;) {
        ::pause();
    }
}

void each_its_own(const std::array<const char*, 2>& names) { reduce(names[static_cast<std::size_t>(rueda::rank())]); }

void busy() {
    rueda::begin_step(7);
    reduce("first");
    if (rueda::rank() == 1) {
        const rueda::Busy outer("training");
        const rueda::Busy inner("saving checkpoint");
        wait_for_the_end();
    }
    reduce("gradient");
}

void loop() {
    const int steps = rueda::rank() == 0 ? 4 : 3;
    for (int step = 0; step < steps; ++step) {
        rueda::begin_step(step);
        reduce("gradient");
    }
    reduce("validation loss");
}

void sends() {
    const std::vector<float> values(1 << 18, 1);
    rueda::send(std::span(values), 1 - rueda::rank(), 5);
}

void stopped() {
    reduce("first");
    if (rueda::rank() == 1) {
        ::kill(::getpid(), SIGSTOP);
        wait_for_the_end();
    }
    reduce("gradient");
}

void receive() {
    if (rueda::rank() == 1) {
        wait_for_the_end();
    }
    float value = 0;
    rueda::receive(std::span(&value, 1), 1, 5);
}

void join() {
    if (rueda::rank() == 1) {
        wait_for_the_end();
    }
    rueda::join();
}

void process_set() {
    if (rueda::rank() == 1) {
        wait_for_the_end();
    }
    static_cast<void>(rueda::add_process_set({0, 1}));
}

void shutdown() {
    if (rueda::rank() == 1) {
        wait_for_the_end();
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::map<std::string, void (*)()> scenarios{
        {"busy", busy},
        {"crosswise",
         [] {
             each_its_own({"one", "other"});
         }},
        {"join", join},
        {"loop", loop},
        {"numbers",
         [] {
             each_its_own({"gradient.17", "gradient.18"});
         }},
        {"process_set", process_set},
        {"receive", receive},
        {"sends", sends},
        {"shutdown", shutdown},
        {"stopped", stopped},
    };
    try {
        const auto scenario = scenarios.find(argc > 1 ? argv[1] : "");
        if (scenario == scenarios.end()) {
            std::fprintf(stderr, "stalled_job: no such scenario\n");
            return 2;
        }
        rueda::init();
        scenario->second();
        rueda::shutdown();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 3;
    }
}
