// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank of the jobs that rueda_top_test.py and rueda_stacks_test.py watch. Usage: watched_rank MODE STOP_FILE. The
// rank trains until STOP_FILE exists. MODE is one of:
//   even       both ranks are equally fast
//   straggler  rank 1 takes longer in each step
//   input      rank 0 sleeps between the steps, as if it waited for data; the other ranks compute
//   threads    the main threads sleep, while another thread computes
//   missing    from the third step on, rank 1 waits in a declared scope until STOP_FILE exists
//   message    in step 3, rank 1 receives a message that rank 0 sends when STOP_FILE exists
//   loop       like missing, but rank 1 computes in a loop
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <rueda/rueda.hpp>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kElements = 16384;  // 64 KiB
constexpr std::int64_t kMissingStep = 3;

bool exists(const char* file) { return access(file, F_OK) == 0; }

}  // namespace

/// The function is exported, because without libdw only exported functions have names in a stack.
[[gnu::noinline, gnu::visibility("default")]] std::uint64_t loop_until_it_exists(const char* file) {
    constexpr std::uint64_t kTurns = 10'000'000;
    std::uint64_t sum = 0;
    while (!exists(file)) {
        for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
            sum = sum * 31 + turn;
            asm volatile("" : "+r"(sum));  // keeps the compiler from removing the loop
        }
    }
    return sum;
}

namespace {

void compute_for(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
}

void pass_message(const char* stop_file) {
    std::vector<float> message(1);
    if (rueda::rank() == 1) {
        rueda::receive(message, 0);
    } else if (rueda::rank() == 0) {
        while (!exists(stop_file)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        rueda::send(message, 1);
    }
}

void compute(std::string_view mode, std::int64_t step, const char* stop_file) {
    using std::chrono::milliseconds;
    if (mode == "straggler" && rueda::rank() == 1) {
        std::this_thread::sleep_for(milliseconds(30));
    } else if (mode == "input" && rueda::rank() == 0) {
        std::this_thread::sleep_for(milliseconds(20));
    } else if (mode == "input") {
        compute_for(milliseconds(20));
    } else if (mode == "threads") {
        std::thread(compute_for, milliseconds(20)).join();
    } else if (mode == "missing" && rueda::rank() == 1 && step == kMissingStep) {
        const rueda::Busy busy("saving the model");
        while (!exists(stop_file)) {
            std::this_thread::sleep_for(milliseconds(5));
        }
    } else if (mode == "message" && step == kMissingStep) {
        pass_message(stop_file);
    } else if (mode == "loop" && rueda::rank() == 1 && step == kMissingStep) {
        std::printf("looped: %d\n", loop_until_it_exists(stop_file) != 0 ? 1 : 0);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        return 2;
    }
    const std::string_view mode = argv[1];
    const char* const stop_file = argv[2];
    rueda::init();
    std::vector<float> gradient(kElements, 1.0F);
    std::vector<std::int32_t> stop(1);
    for (std::int64_t step = 0; stop[0] == 0; ++step) {
        rueda::begin_step(step);
        compute(mode, step, stop_file);
        rueda::allreduce("gradient", gradient);
        stop[0] = rueda::rank() == 0 && exists(stop_file) ? 1 : 0;
        rueda::allreduce("stop", stop, {.op = rueda::ReduceOp::max});
        if (rueda::rank() == 0 && step == kMissingStep - 1) {
            std::puts("trains");
            std::fflush(stdout);
        }
    }
    rueda::shutdown();
    return 0;
}
