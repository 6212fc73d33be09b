// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Measures how fast the threads of one process add up their gradients, by each of the methods that
// rueda::training::Replicas has. For comparison it also measures memcpy. A replica has 4 gradients of equal size. The
// arguments are the number of replicas, and the number of elements of all 4 gradients together. bytes_per_second counts
// the bytes that every method must at least read and write: the gradients of all replicas, and the sum. The column CPU
// is the processor time of all threads together.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/support/run_benchmarks.hpp"
#include "training/replicas/divided_reduction.hpp"
#include "training/replicas/replica_threads.hpp"
#include "training/replicas/ring_reduction.hpp"

namespace rueda::training {
namespace {

constexpr std::size_t kGradients = 4;
constexpr std::size_t kUndivided = std::numeric_limits<std::size_t>::max();

/// The gradients of all replicas. They are 0, so that sums of sums stay finite.
struct Towers {
    explicit Towers(const benchmark::State& state)
        : replicas(static_cast<int>(state.range(0))), count(static_cast<std::size_t>(state.range(1)) / kGradients) {
        for (std::size_t g = 0; g < kGradients; ++g) {
            memory.emplace_back(static_cast<std::size_t>(replicas), std::vector<float>(count));
        }
    }
    [[nodiscard]] std::vector<LocalReduction::Gradient> gradients() {
        std::vector<LocalReduction::Gradient> all(kGradients);
        for (std::size_t g = 0; g < kGradients; ++g) {
            all[g].count = count;
            for (std::vector<float>& each : memory[g]) {
                all[g].replicas.push_back(each.data());
            }
        }
        return all;
    }

    int replicas;
    std::size_t count;                                    ///< the elements of a gradient
    std::vector<std::vector<std::vector<float>>> memory;  ///< [gradient][replica]
};

void count_bytes(benchmark::State& state) {
    state.SetBytesProcessed(state.iterations() * (state.range(0) + 1) * state.range(1) *
                            static_cast<std::int64_t>(sizeof(float)));
}

/// Measures one method to add up gradients. The function `make` returns the object for this method (LocalReduction).
template <class Make>
void reduce_locally(benchmark::State& state, const Make& make) {
    Towers towers(state);
    const auto reduction = make(towers.gradients(), towers.replicas, [](std::size_t /*gradient*/) {});
    ReplicaThreads threads(towers.replicas);
    for (auto _ : state) {
        reduction->begin();
        threads.run([&](int replica) {
            for (std::size_t g = 0; g < kGradients; ++g) {
                reduction->arrive(g, replica);
            }
            reduction->help_until_done(replica);
        });
        benchmark::ClobberMemory();
    }
    count_bytes(state);
}

/// Measures memcpy on one thread: it moves as many bytes as the other measured methods must read and write.
void plain_copy(benchmark::State& state) {
    const auto count = static_cast<std::size_t>((state.range(0) + 1) * state.range(1) / 2);
    const std::vector<float> from(count, 0.5F);
    std::vector<float> to(count);
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), count * sizeof(float));
        benchmark::ClobberMemory();
    }
    count_bytes(state);
}

void divide(benchmark::State& state, const LocalDivision& division) {
    reduce_locally(state, [&](auto gradients, int replicas, auto completed) {
        return std::make_unique<DividedReduction>(gradients, replicas, division, completed);
    });
}

void ring(benchmark::State& state) {
    reduce_locally(state, [](auto gradients, int replicas, auto completed) {
        return std::make_unique<RingReduction>(gradients, replicas, completed);
    });
}

template <class Function>
void register_way(const std::string& name, const Function& function) {
    auto* const way = benchmark::RegisterBenchmark(name.c_str(), function);
    way->ArgNames({"replicas", "elements"})->MeasureProcessCPUTime()->UseRealTime()->Unit(benchmark::kMicrosecond);
    for (const std::int64_t elements : {std::int64_t{16} << 10, std::int64_t{1} << 20, std::int64_t{16} << 20}) {
        for (const std::int64_t replicas : {2, 4, 8}) {
            way->Args({replicas, elements});
        }
    }
}

void register_all() {
    const auto divided_into = [](std::size_t piece) {
        return [piece](benchmark::State& state) {
            divide(state, {.group = static_cast<int>(state.range(0)), .piece = piece});
        };
    };
    register_way("memcpy", plain_copy);
    register_way("to_one", divided_into(kUndivided));
    register_way("hierarchical_2", [](benchmark::State& state) { divide(state, {.group = 2, .piece = kUndivided}); });
    register_way("hierarchical_4", [](benchmark::State& state) {
        divide(state, {.group = std::min(4, static_cast<int>(state.range(0))), .piece = kUndivided});
    });
    register_way("divided_16Ki", divided_into(std::size_t{16} << 10));
    register_way("divided_64Ki", divided_into(std::size_t{64} << 10));  // the pieces of Replicas
    register_way("divided_256Ki", divided_into(std::size_t{256} << 10));
    register_way("ring", ring);
}

}  // namespace
}  // namespace rueda::training

int main(int argc, char** argv) {
    rueda::training::register_all();
    return rueda::benchmarks::run_benchmarks(argc, argv);
}
