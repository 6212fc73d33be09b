// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Measures a step of each optimizer on one thread. For comparison, it also measures memcpy and the memory bound: a loop
// that reads and writes the same memory as Adam, but does not compute what Adam computes. The argument is the number of
// parameters. bytes_per_second counts the bytes that the rule has to read and write.
// benchmarks/python/optimizer_bench.py compares the times with PyTorch's.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "benchmarks/support/run_benchmarks.hpp"
#include "rueda/training/optimizer.hpp"

namespace rueda::training {
namespace {

void count_bytes(benchmark::State& state, std::int64_t bytes_per_parameter) {
    state.SetBytesProcessed(state.iterations() * state.range(0) * bytes_per_parameter);
}

void optimizer_step(benchmark::State& state, const OptimizerRule& rule, std::int64_t bytes_per_parameter) {
    const auto count = static_cast<std::size_t>(state.range(0));
    std::vector<float> values(count, 0.5F);
    std::vector<float> gradient(count, 0.01F);
    Optimizer optimizer(rule, {{"w", values, gradient}});
    for (auto _ : state) {
        optimizer.step(1e-4);
        benchmark::ClobberMemory();
    }
    count_bytes(state, bytes_per_parameter);
}

void plain_copy(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    std::vector<float> from(count, 0.5F);
    std::vector<float> to(count);
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), count * sizeof(float));
        benchmark::ClobberMemory();
    }
    count_bytes(state, 8);
}

/// __restrict says that the arrays do not overlap, so that the compiler can vectorise the loop.
void touch_as_adam(float* __restrict w, const float* __restrict g, float* __restrict m, float* __restrict v,
                   std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const float gradient = g[i];
        m[i] += gradient;
        v[i] += gradient;
        w[i] += gradient;
    }
}

void memory_bound(benchmark::State& state) {
    const auto count = static_cast<std::size_t>(state.range(0));
    std::vector<float> w(count, 0.5F);
    std::vector<float> g(count, 0.01F);
    std::vector<float> m(count);
    std::vector<float> v(count);
    for (auto _ : state) {
        touch_as_adam(w.data(), g.data(), m.data(), v.data(), count);
        benchmark::ClobberMemory();
    }
    count_bytes(state, 28);
}

void sizes(benchmark::internal::Benchmark* each) {
    for (const std::int64_t count : {std::int64_t{4} << 10, std::int64_t{256} << 10, std::int64_t{25} << 20}) {
        each->Arg(count);
    }
}

void register_rule(const std::string& name, const OptimizerRule& rule, std::int64_t bytes_per_parameter) {
    sizes(benchmark::RegisterBenchmark(name.c_str(), [rule, bytes_per_parameter](benchmark::State& state) {
        optimizer_step(state, rule, bytes_per_parameter);
    }));
}

void register_all() {
    sizes(benchmark::RegisterBenchmark("memcpy", plain_copy));
    sizes(benchmark::RegisterBenchmark("memory_bound", memory_bound));
    // The last argument is the number of bytes for each parameter: w, g and the state are read, and w and the state are
    // written.
    register_rule("sgd", Sgd{}, 12);
    register_rule("sgd_momentum", Sgd{.momentum = 0.9}, 20);
    register_rule("adam", Adam{}, 28);
    register_rule("adamw", AdamW{}, 28);
    register_rule("adagrad", Adagrad{}, 20);
    register_rule("ftrl", Ftrl{.l1 = 1e-4}, 28);
    // LAMB's second pass reads w and the moments again, and only this pass writes w.
    register_rule("lamb", Lamb{}, 40);
}

}  // namespace
}  // namespace rueda::training

int main(int argc, char** argv) {
    rueda::training::register_all();
    return rueda::benchmarks::run_benchmarks(argc, argv);
}
