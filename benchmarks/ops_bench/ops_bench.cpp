// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Measures ops::reduce() and ops::copy() on one thread and, for comparison, memcpy and a plain loop that the compiler
// vectorises for the baseline CPU. The argument is the number of bytes of a buffer. bytes_per_second counts the bytes
// that are read and written, but not the cache lines that the CPU reads before a cached store.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "benchmarks/support/run_benchmarks.hpp"
#include "ops/reduce.hpp"

namespace rueda::ops {
namespace {

/// Buffers like those of the host communicator: on separate cache lines, with all pages touched.
class Buffers {
public:
    Buffers(std::size_t number, std::size_t bytes, std::size_t shift = 0) : bytes_(bytes) {
        for (std::size_t i = 0; i < number; ++i) {
            memory_.emplace_back(static_cast<std::byte*>(::operator new (bytes + 64, std::align_val_t{4096})));
            // In every floating-point type, the bytes 0x3C are a small positive number.
            std::memset(memory_.back().get(), 0x3C, bytes + 64);
            pointers_.push_back(memory_.back().get() + shift);
        }
    }
    [[nodiscard]] std::vector<const std::byte*> sources() const { return {pointers_.begin(), pointers_.end()}; }
    [[nodiscard]] const std::vector<std::byte*>& destinations() const { return pointers_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    struct Delete {
        void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
    };
    std::size_t bytes_;
    std::vector<std::unique_ptr<std::byte, Delete>> memory_;
    std::vector<std::byte*> pointers_;
};

void count_bytes(benchmark::State& state, std::size_t buffers, std::size_t bytes) {
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(buffers * bytes));
}

struct Shape {
    Reduction reduction;
    std::size_t sources;
    std::size_t destinations;
    Store store;
    std::size_t shift;
    bool in_place = true;  ///< whether destinations are also sources, as in an allreduce in shared memory
};

void reduce_buffers(benchmark::State& state, const Shape& shape) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    const Buffers inputs(std::max(shape.sources, shape.destinations), bytes, shape.shift);
    const Buffers outputs(shape.in_place ? 0 : shape.destinations, bytes, shape.shift);
    std::vector<const std::byte*> sources = inputs.sources();
    sources.resize(shape.sources);
    const std::span destinations((shape.in_place ? inputs : outputs).destinations().data(), shape.destinations);
    const std::size_t count = bytes / size_of(shape.reduction.dtype);
    for (auto _ : state) {
        reduce(shape.reduction, sources, destinations, count, shape.store);
        benchmark::ClobberMemory();
    }
    count_bytes(state, shape.sources + shape.destinations, bytes);
}

void plain_memcpy(benchmark::State& state) {
    const Buffers buffers(2, static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        std::memcpy(buffers.destinations()[0], buffers.destinations()[1], buffers.bytes());
        benchmark::ClobberMemory();
    }
    count_bytes(state, 2, buffers.bytes());
}

void streaming_copy(benchmark::State& state) {
    const Buffers buffers(2, static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        copy(buffers.destinations()[0], buffers.destinations()[1], buffers.bytes(), Store::streaming);
        benchmark::ClobberMemory();
    }
    count_bytes(state, 2, buffers.bytes());
}

/// The loop that a user would write. __restrict says that the buffers do not overlap, so that the compiler can
/// vectorise the loop.
void add_into_both(float* __restrict a, float* __restrict b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

void plain_loop(benchmark::State& state) {
    const Buffers buffers(2, static_cast<std::size_t>(state.range(0)));
    auto* a = reinterpret_cast<float*>(buffers.destinations()[0]);
    auto* b = reinterpret_cast<float*>(buffers.destinations()[1]);
    for (auto _ : state) {
        add_into_both(a, b, buffers.bytes() / sizeof(float));
        benchmark::ClobberMemory();
    }
    count_bytes(state, 4, buffers.bytes());
}

void register_reduce(const std::string& name, const Shape& shape, std::int64_t from, std::int64_t to) {
    benchmark::RegisterBenchmark(name.c_str(), [shape](benchmark::State& state) { reduce_buffers(state, shape); })
        ->RangeMultiplier(8)
        ->Range(from, to);
}

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;

void register_all() {
    benchmark::RegisterBenchmark("memcpy", plain_memcpy)->RangeMultiplier(8)->Range(4 * kKiB, 64 * kMiB);
    benchmark::RegisterBenchmark("copy/streaming", streaming_copy)->RangeMultiplier(8)->Range(4 * kKiB, 64 * kMiB);
    benchmark::RegisterBenchmark("plain loop/2to2/float32", plain_loop)->RangeMultiplier(8)->Range(4 * kKiB, 64 * kMiB);

    const Reduction sum{.op = ReduceOp::sum};
    const Reduction average{.op = ReduceOp::average, .divisor = 2};
    register_reduce("reduce/2to2/float32/sum", {sum, 2, 2, Store::cached, 0}, 4 * kKiB, 64 * kMiB);
    register_reduce("reduce/2to2/float32/average", {average, 2, 2, Store::cached, 0}, 4 * kKiB, 64 * kMiB);
    register_reduce("reduce/2to2/float32/sum/elsewhere", {sum, 2, 2, Store::cached, 0, false}, 4 * kKiB, 64 * kMiB);
    register_reduce("reduce/2to2/float32/sum/elsewhere/streaming", {sum, 2, 2, Store::streaming, 0, false}, 4 * kKiB,
                    64 * kMiB);
    register_reduce("reduce/2to1/float32/sum/elsewhere", {sum, 2, 1, Store::cached, 0, false}, 4 * kKiB, 64 * kMiB);
    register_reduce("reduce/2to1/float32/sum/elsewhere/streaming", {sum, 2, 1, Store::streaming, 0, false}, 4 * kKiB,
                    64 * kMiB);
    register_reduce("reduce/2to2/float32/sum/misaligned", {sum, 2, 2, Store::cached, 4}, 4 * kKiB, 64 * kMiB);
    register_reduce("reduce/2to1/float32/sum", {sum, 2, 1, Store::cached, 0}, 4 * kKiB, 64 * kMiB);
    for (const std::size_t n : {3u, 4u, 8u}) {
        register_reduce(fmt::format("reduce/{0}to{0}/float32/sum", n), {sum, n, n, Store::cached, 0}, 4 * kKiB,
                        64 * kMiB);
    }
    for (const DType dtype :
         {DType::uint8, DType::int8, DType::int16, DType::uint16, DType::int32, DType::uint32, DType::int64,
          DType::uint64, DType::float16, DType::bfloat16, DType::float64, DType::float8_e4m3fn, DType::float8_e5m2}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
            register_reduce(fmt::format("reduce/2to2/{}/{}", name_of(dtype), name_of(op)),
                            {{.dtype = dtype, .op = op, .divisor = 2}, 2, 2, Store::cached, 0}, 32 * kKiB, 32 * kKiB);
        }
    }
    register_reduce("reduce/2to2/bool/max", {{.dtype = DType::boolean, .op = ReduceOp::max}, 2, 2, Store::cached, 0},
                    32 * kKiB, 32 * kKiB);
    // The following reductions are so small that they show the latency of a call.
    for (const std::size_t n : {2u, 8u}) {
        register_reduce(fmt::format("latency/{0}to1/float32/average", n), {average, n, 1, Store::cached, 0}, 4, 256);
    }
}

}  // namespace
}  // namespace rueda::ops

int main(int argc, char** argv) {
    rueda::ops::register_all();
    benchmark::AddCustomContext("simd_target", rueda::ops::simd_target());
    return rueda::benchmarks::run_benchmarks(argc, argv);
}
