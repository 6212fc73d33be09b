// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Measures a step of each optimizer on one thread. For comparison, it also measures memcpy and the memory bound of each
// rule (bound_…): a loop that reads and writes the same memory, but only adds. The argument is the number of
// parameters. bytes_per_second counts the bytes that the rule has to read and write.
// benchmarks/python/optimizer_bench.py compares the times with PyTorch's.
#include <benchmark/benchmark.h>

#include <array>
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

constexpr std::size_t kLine = 16;    ///< the number of elements in a cache line
constexpr std::size_t kAhead = 512;  ///< the loops prefetch the element at this distance, as the optimizers do
/// A vector type. GCC and clang use the CPU's vector instructions to add two values of this type.
using Line = float __attribute__((vector_size(kLine * sizeof(float)), aligned(sizeof(float)), may_alias));

/// Adds the sums of the arrays in `read` to each of the arrays in `changed`. `count` is a multiple of kLine.
template <std::size_t kChanged, std::size_t kRead>
void touch(const std::array<float*, kChanged>& changed, const std::array<const float*, kRead>& read,
           std::size_t count) {
    for (std::size_t i = 0; i < count; i += kLine) {
        Line sum = {};
        for (const float* const from : read) {
            __builtin_prefetch(from + i + kAhead);
            sum += *reinterpret_cast<const Line*>(from + i);
        }
        for (float* const to : changed) {
            __builtin_prefetch(to + i + kAhead);
            *reinterpret_cast<Line*>(to + i) += sum;
        }
    }
}

/// The arrays of one parameter.
struct Arrays {
    explicit Arrays(std::size_t size) : count(size), w(size, 0.5F), g(size, 0.01F), m(size), v(size) {}
    std::size_t count;
    std::vector<float> w, g, m, v;
};

void touch_without_state(Arrays& a) { touch<1, 1>({a.w.data()}, {a.g.data()}, a.count); }
void touch_one_state(Arrays& a) { touch<2, 1>({a.m.data(), a.w.data()}, {a.g.data()}, a.count); }
void touch_two_states(Arrays& a) { touch<3, 1>({a.m.data(), a.v.data(), a.w.data()}, {a.g.data()}, a.count); }
/// LAMB passes over the memory twice: the first pass does not change w, and the second one changes only w.
void touch_twice(Arrays& a) {
    touch<2, 2>({a.m.data(), a.v.data()}, {a.g.data(), a.w.data()}, a.count);
    touch<1, 2>({a.w.data()}, {a.m.data(), a.v.data()}, a.count);
}

void memory_bound(benchmark::State& state, void (*touch_all)(Arrays&), std::int64_t bytes_per_parameter) {
    Arrays arrays(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        touch_all(arrays);
        benchmark::ClobberMemory();
    }
    count_bytes(state, bytes_per_parameter);
}

void sizes(benchmark::internal::Benchmark* each) {
    for (const std::int64_t count : {std::int64_t{4} << 10, std::int64_t{256} << 10, std::int64_t{25} << 20}) {
        each->Arg(count);
    }
}

void register_rule(const std::string& name, const OptimizerRule& rule, void (*touch_all)(Arrays&),
                   std::int64_t bytes_per_parameter) {
    sizes(benchmark::RegisterBenchmark(name.c_str(), [rule, bytes_per_parameter](benchmark::State& state) {
        optimizer_step(state, rule, bytes_per_parameter);
    }));
    sizes(benchmark::RegisterBenchmark(("bound_" + name).c_str(), [=](benchmark::State& state) {
        memory_bound(state, touch_all, bytes_per_parameter);
    }));
}

void register_all() {
    sizes(benchmark::RegisterBenchmark("memcpy", plain_copy));
    // The last argument of register_rule() is the number of bytes that the rule moves for each parameter. The rule
    // reads w, g and the state, and writes w and the state.
    register_rule("sgd", Sgd{}, touch_without_state, 12);
    register_rule("sgd_momentum", Sgd{.momentum = 0.9}, touch_one_state, 20);
    register_rule("adam", Adam{}, touch_two_states, 28);
    register_rule("adamw", AdamW{}, touch_two_states, 28);
    register_rule("adagrad", Adagrad{}, touch_one_state, 20);
    register_rule("ftrl", Ftrl{.l1 = 1e-4}, touch_two_states, 28);
    // LAMB's second pass reads w and the moments again, and only this pass writes w.
    register_rule("lamb", Lamb{}, touch_twice, 40);
}

}  // namespace
}  // namespace rueda::training

int main(int argc, char** argv) {
    rueda::training::register_all();
    return rueda::benchmarks::run_benchmarks(argc, argv);
}
