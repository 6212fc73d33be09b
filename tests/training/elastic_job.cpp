// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A worker of an elastic job. It adds up numbers whose sum does not depend on the number of ranks, and commits after
// each step. elastic_test.py runs it.
//
// Usage: elastic_job STEPS [pause=MILLISECONDS] [kill=GENERATION,STEP,RANK]... [size=N] [until=FILE]
//   kill: this rank kills itself in this step of this generation
//   size: after the last step, the job goes on until it has N ranks
//   until: after the last step, the job goes on until this file exists
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rueda/rueda.hpp"
#include "rueda/training/elastic.hpp"

namespace {

struct Kill {
    int generation = 0;
    int step = 0;
    int rank = 0;
};

struct Arguments {
    std::int64_t steps = 0;
    std::chrono::milliseconds pause{0};
    int size = 0;
    std::string until;
    std::vector<Kill> kills;
};

Arguments parse(int argc, char** argv) {
    Arguments arguments;
    arguments.steps = std::atoll(argv[1]);
    for (int i = 2; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word.starts_with("pause=")) {
            arguments.pause = std::chrono::milliseconds(std::atoi(argv[i] + 6));
        } else if (word.starts_with("size=")) {
            arguments.size = std::atoi(argv[i] + 5);
        } else if (word.starts_with("until=")) {
            arguments.until = argv[i] + 6;
        } else {
            Kill kill;
            if (std::sscanf(argv[i], "kill=%d,%d,%d", &kill.generation, &kill.step, &kill.rank) != 3) {
                std::exit(2);
            }
            arguments.kills.push_back(kill);
        }
    }
    return arguments;
}

int generation() {
    const char* const text = std::getenv("RUEDARUN_GENERATION");
    return text == nullptr ? 0 : std::atoi(text);
}

/// Returns how many arenas (the shared memory of a generation) this process has mapped.
std::size_t mapped_arenas() {
    std::ifstream maps("/proc/self/maps");
    std::set<std::string> inodes;
    for (std::string line; std::getline(maps, line);) {
        std::string range;
        std::string rights;
        std::string offset;
        std::string device;
        std::string inode;
        std::istringstream(line) >> range >> rights >> offset >> device >> inode;
        if (line.find("memfd:rueda-arena") != std::string::npos) {
            inodes.insert(inode);
        }
    }
    return inodes.size();
}

void show(const char* what, std::int64_t step, std::int64_t sum) {
    const char* const rank = std::getenv("RANK");
    const char* const size = std::getenv("WORLD_SIZE");
    std::printf("%s pid=%d generation=%d rank=%d size=%d RANK=%s WORLD_SIZE=%s step=%lld sum=%lld arenas=%zu\n", what,
                static_cast<int>(::getpid()), generation(), rueda::rank(), rueda::size(), rank == nullptr ? "" : rank,
                size == nullptr ? "" : size, static_cast<long long>(step), static_cast<long long>(sum),
                mapped_arenas());
    std::fflush(stdout);
}

/// Returns this rank's part of the numbers of a step. The ranks divide 16 numbers among them.
std::int64_t part_of(std::int64_t step) {
    constexpr std::int64_t kNumbers = 16;
    std::int64_t part = 0;
    for (std::int64_t i = rueda::rank(); i < kNumbers; i += rueda::size()) {
        const std::int64_t number = step * kNumbers + i;
        part += number * number % 1009;
    }
    return part;
}

void run(const Arguments& arguments) {
    std::array<std::int64_t, 2> state = {0, 0};  // the step, and the sum
    std::int64_t& step = state[0];
    rueda::training::Elastic elastic({{"state", state}});
    int resets = 0;
    elastic.on_reset([&resets] { ++resets; });
    elastic.run([&] {
        show("start", step, state[1]);
        bool may_end = arguments.until.empty();
        while (step < arguments.steps || rueda::size() < arguments.size || !may_end) {
            for (const Kill& kill : arguments.kills) {
                if (kill.generation == generation() && kill.step == step && kill.rank == rueda::rank()) {
                    std::raise(SIGKILL);
                }
            }
            std::this_thread::sleep_for(arguments.pause);
            // The ranks must agree whether they end. So they add up how many of them have seen the file.
            const bool sees_file = !may_end && ::access(arguments.until.c_str(), F_OK) == 0;
            std::array<std::int64_t, 2> sum = {step < arguments.steps ? part_of(step) : 0, sees_file ? 1 : 0};
            rueda::allreduce("sum", sum, {.op = rueda::ReduceOp::sum});
            state[1] += sum[0];
            may_end = may_end || sum[1] > 0;
            step += step < arguments.steps ? 1 : 0;
            elastic.commit();
        }
    });
    show("end", step, state[1]);
    std::printf("resets=%d\n", resets);
}

}  // namespace

int main(int argc, char** argv) {
    const Arguments arguments = parse(argc, argv);
    try {
        rueda::init();
        run(arguments);
        rueda::shutdown();
    } catch (const rueda::Error& error) {
        std::fprintf(stderr, "failed: %s\n", error.what());
        return 1;
    }
    return 0;
}
