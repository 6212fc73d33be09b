// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank of benchmarks/links/leaders. Compares leaders that poll MPI with leaders that sleep until TCP wakes them:
// the two kinds of jobs follow each other in the same processes. Rank 0 prints a line of JSON for each job:
//
//   {"sockets": 0 or 1, "small": [µs …], "idle": percent, "waiting": percent, "idle_wakeups": per second,
//    "waiting_wakeups": per second}
//
// "small" are the times of blocking allreduces of 4 bytes. "idle" and "waiting" are processor times of rank 0, in
// percent of a core. "idle" is measured while no operation is pending, and "waiting" while rank 0 waits for an
// operation that the last rank starts late. The wake-ups are those of all threads of rank 0, including MPI's. Unlike
// the processor time, their number does not depend on the speed of the machine.
//
// Usage: leaders_rank SECONDS ROUNDS
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rueda/rueda.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// After this time without an operation, MPI has no message in progress, and every leader that is able to sleep is
/// asleep.
constexpr std::chrono::milliseconds kSettle{1500};

double processor_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Returns how often the threads of this process have gone to sleep so far.
std::uint64_t sleeps_so_far() {
    constexpr std::string_view kName = "voluntary_ctxt_switches:";
    std::uint64_t sleeps = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        for (std::string line; std::getline(status, line);) {
            sleeps += line.starts_with(kName) ? std::stoull(line.substr(kName.size())) : 0;
        }
    }
    return sleeps;
}

struct Use {
    double percent = 0;  ///< processor time in percent of a core
    double wakeups = 0;  ///< per second
};

/// Measures what this process uses since the construction.
class Measurement {
public:
    [[nodiscard]] Use use() const {
        const double processor = processor_seconds() - used_;
        const double wall = std::chrono::duration<double>(Clock::now() - begin_).count();
        return {100 * processor / wall, static_cast<double>(sleeps_so_far() - sleeps_) / wall};
    }

private:
    std::uint64_t sleeps_ = sleeps_so_far();
    Clock::time_point begin_ = Clock::now();
    double used_ = processor_seconds();
};

std::vector<double> times_of_small(int count) {
    const rueda::TensorSlot slot("small");
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
        float value = 1;
        const auto begin = Clock::now();
        rueda::allreduce(slot, std::span(&value, 1), {.op = rueda::ReduceOp::sum});
        times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() * 1e6);
        if (value != static_cast<float>(rueda::size())) {
            throw rueda::Internal(fmt::format("the sum is {}, expected {}", value, rueda::size()));
        }
    }
    return times;
}

void run_job(bool sockets, double seconds) {
    ::setenv("RUEDA_LEADER_SOCKETS", sockets ? "1" : "0", 1);  // NOLINT(concurrency-mt-unsafe): one thread
    rueda::init();
    constexpr int kWarmUp = 200;
    constexpr int kTimed = 2000;
    static_cast<void>(times_of_small(kWarmUp));
    const std::vector<double> small = times_of_small(kTimed);

    std::this_thread::sleep_for(kSettle);
    const Measurement of_idle;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const Use idle = of_idle.use();

    if (rueda::rank() == rueda::size() - 1) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    const Measurement of_waiting;
    float value = 1;
    rueda::allreduce("late", std::span(&value, 1));
    const Use waiting = of_waiting.use();
    if (rueda::rank() == 0) {
        fmt::print(
            "{{\"sockets\": {}, \"small\": [{:.2f}], \"idle\": {:.4f}, \"waiting\": {:.4f}, \"idle_wakeups\": {:.2f}, "
            "\"waiting_wakeups\": {:.2f}}}\n",
            sockets ? 1 : 0, fmt::join(small, ", "), idle.percent, waiting.percent, idle.wakeups, waiting.wakeups);
        std::fflush(stdout);
    }
    rueda::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const double seconds = argc > 1 ? std::stod(argv[1]) : 5;
        const int rounds = argc > 2 ? std::stoi(argv[2]) : 3;
        for (int round = 0; round < rounds; ++round) {
            run_job(round % 2 != 0, seconds);
            run_job(round % 2 == 0, seconds);
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
