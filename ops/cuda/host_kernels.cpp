// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/cuda/host_kernels.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ops/cuda/kernel_list.hpp"

namespace rueda::ops::cuda {

void end_misaligned(const void* memory, std::size_t alignment) {
    std::fprintf(stderr, "a kernel accessed %p, which is not aligned to %zu bytes\n", memory, alignment);
    std::abort();
}

namespace {

/// Runs the body for every thread of the grid. Threads have one dimension, and blocks have two.
template <class Arguments, class Body>
void run_threads(Dimensions grid, Dimensions block, void** arguments, Body body) {
    const auto& argument = *static_cast<const Arguments*>(arguments[0]);
    const std::uint64_t threads = std::uint64_t{grid.x} * block.x;
    for (std::uint32_t row = 0; row < grid.y; ++row) {
        for (std::uint64_t index = 0; index < threads; ++index) {
            body(argument, Place{index, threads, row});
        }
    }
}

#define RUEDA_HOST_KERNEL(name, Arguments, body)                                                              \
    void name(Dimensions grid, Dimensions block, void** arguments) {                                          \
        run_threads<Arguments>(grid, block, arguments,                                                        \
                               [](const Arguments& argument, const Place& place) { body(argument, place); }); \
    }
RUEDA_CUDA_KERNELS(RUEDA_HOST_KERNEL)
#undef RUEDA_HOST_KERNEL

#define RUEDA_NAMED_KERNEL(name, Arguments, body) NamedHostKernel{#name, name},
constexpr std::array kKernels{RUEDA_CUDA_KERNELS(RUEDA_NAMED_KERNEL)};
#undef RUEDA_NAMED_KERNEL

}  // namespace

std::span<const NamedHostKernel> host_kernels() { return kKernels; }

HostKernel find_host_kernel(const char* name) {
    for (const NamedHostKernel& kernel : kKernels) {
        if (std::strcmp(kernel.name, name) == 0) {
            return kernel.run;
        }
    }
    return nullptr;
}

}  // namespace rueda::ops::cuda
