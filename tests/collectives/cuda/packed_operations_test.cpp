// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests packed allreduces. The stand-in for the driver and NCCL runs the device kernels on the host.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/collectives/cuda/allreduces.hpp"
#include "tests/collectives/cuda/elements.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

GpuTables with_kernels() {
    GpuTables tables = tables_of_stand_in();
    tables.kernels = gpu::kKernelImage;
    return tables;
}

std::vector<Segment> many(std::size_t number, Segment segment) { return std::vector<Segment>(number, segment); }

/// 300 float32 tensors and 5 int32 tensors are packed. One large tensor is not packed, and a tensor that is the only
/// one of its type is not packed either.
std::vector<Segment> mixed_batch() {
    std::vector<Segment> segments = many(300, {.reduce_op = ReduceOp::sum, .count = 3});
    for (std::size_t i = 0; i < segments.size(); ++i) {
        segments[i].count = i % 40;
    }
    segments.push_back({.reduce_op = ReduceOp::sum, .count = 40'000});
    for (const Segment& segment : many(5, {.dtype = DType::int32, .reduce_op = ReduceOp::max, .count = 77})) {
        segments.push_back(segment);
    }
    segments.push_back({.dtype = DType::float64, .reduce_op = ReduceOp::sum, .count = 9});
    // every member seeds this generator alike, so all members use the same order
    std::shuffle(segments.begin(), segments.end(), std::mt19937(5));
    return segments;
}

TEST_CASE("many small tensors need few calls of NCCL and few kernels", "[gpu]") {
    const GpuTables tables = with_kernels();
    run_members(
        3, 3, 700,
        [](Member& member) {
            const auto communicator = member.connect();
            allreduce(member, *communicator, mixed_batch(), {}, false);
            if (communicator->last_call() != DeviceCall::packed_nccl_all_reduce) {
                throw std::runtime_error("another call");
            }
        },
        &tables);
    const std::vector<std::string> found = gpu::nccl_operations();
    CHECK(found.size() == 3 * 4);
    CHECK(std::count(found.begin(), found.end(), "ncclAllReduce 40000 float32 sum") == 3);
    CHECK(std::count(found.begin(), found.end(), "ncclAllReduce 9 float64 sum") == 3);
    CHECK(std::count(found.begin(), found.end(), "ncclAllReduce 400 int32 max") == 3);  // 5 · 80 elements
    // 292 float32 tensors have elements. They and the 5 int32 tensors are packed by two kernels, and unpacked by two
    // kernels.
    CHECK(gpu::calls("cuLaunchKernel") == 3 * 4);
}

TEST_CASE("packed allreduces of all types and operations", "[gpu]") {
    const GpuTables tables = with_kernels();
    for (const std::uint32_t members : {1U, 3U, 8U}) {
        run_members(
            members, static_cast<int>(members), 710 + members,
            [](Member& member) {
                const auto communicator = member.connect();
                for (const bool with_factors : {false, true}) {
                    std::vector<Segment> segments = every_reduction(0, with_factors);
                    const std::vector<Segment> again = segments;
                    // With these tensors added, there are two tensors of each type and reduction, so they can be
                    // packed.
                    segments.insert(segments.end(), again.begin(), again.end());
                    run_allreduces(member, *communicator, {segments, {}, with_factors, 1});
                    run_allreduces(member, *communicator, {segments, {}, !with_factors, 5});
                }
            },
            &tables);
        CHECK(gpu::calls("cuLaunchKernel") == 8 * members);
    }
}

TEST_CASE("members that have joined fill their part of the packed memory", "[gpu]") {
    const GpuTables tables = with_kernels();
    for (const std::uint32_t members : {2U, 5U}) {
        run_members(
            members, static_cast<int>(members), 730 + members,
            [members](Member& member) {
                const auto communicator = member.connect();
                std::vector<Segment> segments = every_reduction(1, true);
                const std::vector<Segment> again = segments;
                segments.insert(segments.end(), again.begin(), again.end());
                run_allreduces(member, *communicator, {segments, {1}, false, 3});
                std::vector<std::uint32_t> joined(members - 1);
                std::iota(joined.begin(), joined.end(), 1);
                for (Segment& segment : segments) {
                    segment.uncounted = members - 1;
                }
                run_allreduces(member, *communicator, {segments, joined, true, 1});
            },
            &tables);
    }
}

TEST_CASE("batches follow each other in the scratch memory without a wait of the host", "[gpu]") {
    const GpuTables tables = with_kernels();
    for (std::uint64_t seed = 740; seed < 745; ++seed) {
        run_members(
            3, 3, seed,
            [](Member& member) {
                const auto one = member.connect();
                const auto other = member.connect();
                std::vector<Segment> tensors =
                    many(200, {.dtype = DType::int64, .reduce_op = ReduceOp::sum, .count = 20});
                for (Segment& tensor : tensors) {
                    const auto values = values_of(DType::int64, ReduceOp::max, member.number(), tensor.count);
                    tensor.output = member.put(encode(DType::int64, values));
                    tensor.input = tensor.output;
                }
                const std::size_t waits = gpu::host_waits();
                for (int round = 0; round < 6; ++round) {
                    require_ok(member.run(round % 2 == 0 ? *one : *other, {.segments = tensors}));
                }
                member.meet();
                require_equal("host waits", static_cast<double>(gpu::host_waits() - waits), 0, 0);
                member.meet();
                for (const Segment& tensor : tensors) {
                    const auto found = decode(DType::int64, member.get(tensor.output, tensor.bytes()));
                    for (std::size_t i = 0; i < found.size(); ++i) {
                        double sum = 0;
                        for (std::uint32_t m = 0; m < 3; ++m) {
                            sum += value_of(DType::int64, ReduceOp::max, m, i);
                        }
                        require_equal("6 sums", found[i], sum * std::pow(3, 5), 0);
                    }
                }
            },
            &tables);
    }
}

/// The first member that loads its kernels gets an error. This flag is a global variable, because the tables contain
/// plain functions, which have no data.
std::atomic<bool> has_refused{false};
collectives::cuda::CudaResult refuse_once(collectives::cuda::CudaModule* module, const void* image) {
    static const auto load = tables_of_stand_in().cuda.module_load_data;
    // Relaxed: nothing else depends on the flag.
    return has_refused.exchange(true, std::memory_order_relaxed) ? load(module, image)
                                                                 : collectives::cuda::kCudaNoBinaryForDevice;
}

TEST_CASE("if one member has no kernels, no member packs", "[gpu]") {
    GpuTables tables = with_kernels();
    tables.cuda.module_load_data = refuse_once;
    for (std::uint64_t seed = 760; seed < 764; ++seed) {
        has_refused.store(false, std::memory_order_relaxed);
        run_members(
            3, 3, seed,
            [](Member& member) {
                const auto communicator = member.connect();
                allreduce(member, *communicator, many(50, {.reduce_op = ReduceOp::sum, .count = 7}), {}, false);
            },
            &tables);
        CHECK(gpu::nccl_operations().size() == 3 * 50);
        CHECK(gpu::calls("cuLaunchKernel") == 0);
    }
}

/// Runs a batch of random numbers, and returns each member's results.
std::map<std::uint32_t, std::vector<std::vector<std::byte>>> bits_of(const GpuTables& tables, std::uint64_t seed) {
    std::map<std::uint32_t, std::vector<std::vector<std::byte>>> results;
    std::mutex mutex;
    run_members(
        4, 4, seed,
        [&](Member& member) {
            const auto communicator = member.connect();
            std::mt19937_64 random(seed + member.number());
            std::vector<Segment> segments;
            for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
                for (const double prescale : {1.0, 0.1}) {
                    const Segment segment{.dtype = dtype, .reduce_op = ReduceOp::average, .prescale = prescale};
                    const auto all = many(10, segment);
                    segments.insert(segments.end(), all.begin(), all.end());
                }
            }
            for (std::size_t i = 0; i < segments.size(); ++i) {
                segments[i].count = 13 * i;
                std::vector<double> values(segments[i].count);
                std::generate(values.begin(), values.end(),
                              [&] { return std::ldexp(static_cast<double>(random() % 100'000), -12) - 11.0; });
                segments[i].output = member.put(encode(segments[i].dtype, values));
                segments[i].input = segments[i].output;
            }
            require_ok(member.run(*communicator, {.segments = segments}));
            std::vector<std::vector<std::byte>> found;
            for (const Segment& segment : segments) {
                found.push_back(member.get(segment.output, segment.bytes()));
            }
            const std::scoped_lock lock(mutex);
            results[member.number()] = std::move(found);
        },
        &tables);
    return results;
}

TEST_CASE("a packed tensor has the result of a tensor that is not packed", "[gpu]") {
    // The stand-in adds in the order of the ranks, so even the bits are the same.
    const auto packed = bits_of(with_kernels(), 770);
    CHECK(gpu::nccl_operations().size() == 4 * 8);
    const auto separate = bits_of(tables_of_stand_in(), 770);
    CHECK(gpu::nccl_operations().size() == 4 * 79);  // one tensor has no elements
    CHECK(packed.size() == 4);
    CHECK(packed == separate);
}

TEST_CASE("a kernel that cannot be launched fails the batch", "[gpu]") {
    GpuTables tables = with_kernels();
    const auto complaints = complaints_of_members(
        1, 1, 780,
        [](Member& member) {
            const auto communicator = member.connect();
            member.keep_memory();
            gpu::fail_call("cuLaunchKernel", 2, collectives::cuda::kCudaLaunchFailed);  // the second launch unpacks
            allreduce(member, *communicator, many(50, {.reduce_op = ReduceOp::sum, .count = 7}), {}, false);
        },
        tables);
    REQUIRE(complaints.size() == 1);
    INFO(complaints[0]);
    CHECK(complaints[0].find("cuLaunchKernel of rueda_copy failed on GPU 0") != std::string::npos);
}

}  // namespace
}  // namespace rueda::tests
