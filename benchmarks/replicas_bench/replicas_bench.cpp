// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Measures how fast the threads of one process add up their gradients, in the ways of rueda::training::Replicas. For
// comparison it also measures memcpy, and a ring, in which each thread adds only the piece of its neighbour. The
// arguments are the number of replicas and the number of elements of all gradients of a replica, which are 4 equal
// gradients. bytes_per_second counts what any way must at least read and write: the gradients of all replicas, and the
// sum. The column CPU is the processor time of all threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "benchmarks/support/run_benchmarks.hpp"
#include "ops/reduce.hpp"
#include "training/replicas/local_reduction.hpp"
#include "training/replicas/replica_threads.hpp"

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

void reduce_locally(benchmark::State& state, const LocalDivision& division) {
    Towers towers(state);
    LocalReduction reduction(towers.gradients(), towers.replicas, division, [](std::size_t /*gradient*/) {});
    ReplicaThreads threads(towers.replicas);
    for (auto _ : state) {
        reduction.begin();
        threads.run([&](int replica) {
            for (std::size_t g = 0; g < kGradients; ++g) {
                reduction.arrive(g, replica);
            }
            reduction.help_until_done();
        });
        benchmark::ClobberMemory();
    }
    count_bytes(state);
}

/// Adds the elements [begin, end) of `from` to those of `to`.
void add(float* to, const float* from, std::size_t begin, std::size_t end) {
    const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(to + begin),
                                        reinterpret_cast<const std::byte*>(from + begin)};
    std::byte* const destination = reinterpret_cast<std::byte*>(to + begin);
    ops::reduce({.dtype = DType::float32, .op = ReduceOp::sum}, sources, std::span(&destination, 1), end - begin);
}

/// Reduce-scatter in a ring: in each of K − 1 rounds, each thread adds one of K pieces of its neighbour to its own.
/// Then the pieces are copied to replica 0. Between two rounds the threads wait for each other.
void ring(benchmark::State& state) {
    Towers towers(state);
    ReplicaThreads threads(towers.replicas);
    const auto all = static_cast<std::size_t>(towers.replicas);
    std::barrier<> round(towers.replicas);
    const auto begin_of = [&](std::size_t piece) { return towers.count * piece / all; };
    for (auto _ : state) {
        threads.run([&](int replica) {
            const auto me = static_cast<std::size_t>(replica);
            for (std::vector<std::vector<float>>& gradient : towers.memory) {
                for (std::size_t step = 1; step < all; ++step) {
                    const std::size_t piece = (me + all - step) % all;
                    add(gradient[me].data(), gradient[(me + all - 1) % all].data(), begin_of(piece),
                        begin_of(piece + 1));
                    round.arrive_and_wait();
                }
                const std::size_t mine = (me + 1) % all;  // the piece that is complete in this thread
                if (me != 0) {
                    std::memcpy(gradient[0].data() + begin_of(mine), gradient[me].data() + begin_of(mine),
                                (begin_of(mine + 1) - begin_of(mine)) * sizeof(float));
                }
                round.arrive_and_wait();
            }
        });
        benchmark::ClobberMemory();
    }
    count_bytes(state);
}

/// One thread copies as many bytes as the others read and write.
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
            reduce_locally(state, {.group = static_cast<int>(state.range(0)), .piece = piece});
        };
    };
    register_way("memcpy", plain_copy);
    register_way("to_one", divided_into(kUndivided));
    register_way("hierarchical_2",
                 [](benchmark::State& state) { reduce_locally(state, {.group = 2, .piece = kUndivided}); });
    register_way("hierarchical_4", [](benchmark::State& state) {
        reduce_locally(state, {.group = std::min(4, static_cast<int>(state.range(0))), .piece = kUndivided});
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
