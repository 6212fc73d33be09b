// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Runs the benchmark of the device kernels on a simulated device, whose kernels run on the host. It compares all
// results with the expected values.
#include "benchmarks/gpu_bench/kernels.hpp"

#include <catch2/catch.hpp>

#include "ops/cuda/host_kernels.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::bench {
namespace {

using ops::cuda::Dimensions;
using tests::gpu::Grid;

/// Each kernel has one parameter, a struct of at most 4096 bytes. The stand-in for the driver copies as many bytes as
/// the kernel's description says. So the description must give the size of this kernel's struct.
std::size_t argument_bytes_of(const std::string& kernel) {
    if (kernel.starts_with("rueda_reduce")) {
        return sizeof(ops::cuda::ReduceArguments);
    }
    if (kernel.starts_with("rueda_adasum")) {
        return sizeof(ops::cuda::AdasumArguments);
    }
    return kernel == ops::cuda::kFillKernel ? sizeof(ops::cuda::FillArguments) : sizeof(ops::cuda::BatchArguments);
}

void register_kernels() {
    for (const ops::cuda::NamedHostKernel& kernel : ops::cuda::host_kernels()) {
        const auto run = [run_on_host = kernel.run](Grid grid, Grid block, void** arguments) {
            run_on_host(Dimensions{grid.x, grid.y, grid.z}, Dimensions{block.x, block.y, block.z}, arguments);
        };
        const auto ranges = [](Grid, Grid, void**) { return std::vector<tests::gpu::Range>(); };
        tests::gpu::register_kernel(kernel.name,
                                    {.argument_bytes = {argument_bytes_of(kernel.name)}, .run = run, .ranges = ranges});
    }
}

TEST_CASE("the benchmark of the device kernels finds no wrong result") {
    tests::gpu::reset(1, 1);
    tests::gpu::set_delays(std::chrono::microseconds(0));
    register_kernels();
    Gpu gpu(0);
    CHECK(measure_kernels(gpu, {.tensor_bytes = 1U << 20, .samples = 1}) == 0);
    CHECK(tests::gpu::violations().empty());
}

TEST_CASE("the benchmark of the device kernels counts wrong elements") {
    std::vector<std::byte> memory(1000 * sizeof(float));
    write_values(memory.data(), DType::float32, 1000, {.factor = 3, .offset = 1});
    CHECK(count_wrong(memory.data(), DType::float32, 1000, {.factor = 3, .offset = 1}) == 0);
    CHECK(count_wrong(memory.data(), DType::float32, 1000, {.factor = 3, .offset = 2}) == 1000);
    memory[999 * sizeof(float)] = std::byte{1};
    CHECK(count_wrong(memory.data(), DType::float32, 1000, {.factor = 3, .offset = 1}) == 1);
    CHECK(quantile({4, 1, 3, 2, 5}, 0.5) == 3);
}

}  // namespace
}  // namespace rueda::bench
