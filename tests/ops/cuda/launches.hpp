// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "ops/cuda/host_kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ptx_machine.hpp"

namespace rueda::ops::cuda::test {

using ops::test::Buffer;
using ops::test::Bytes;

/// Returns the machine for the PTX file in the variable RUEDA_TEST_PTX, or null. With a file, the tests execute its
/// kernels instead of the host's. Because this is slow, they then run only every 25th of their comparisons.
const PtxMachine* ptx_machine();

/// Whether the next comparison of a long series is to be run.
bool is_chosen();

/// Runs a launch on the host. Without `blocks`, the grid is the launch's own.
template <class Arguments>
void run(const Launch<Arguments>& launch, std::uint32_t blocks = 0) {
    REQUIRE(launch.kernel != nullptr);
    Arguments arguments = launch.arguments;
    const Dimensions grid{blocks != 0 ? blocks : launch.geometry.blocks, launch.geometry.rows, 1};
    if (ptx_machine() != nullptr) {
        ptx_machine()->run(launch.kernel, grid, {kThreads, 1, 1}, &arguments, sizeof(arguments));
        return;
    }
    const HostKernel kernel = find_host_kernel(launch.kernel);
    CAPTURE(launch.kernel);
    REQUIRE(kernel != nullptr);
    void* parameters[] = {&arguments};
    kernel(grid, {kThreads, 1, 1}, parameters);
}

/// Returns "" if the buffer has the content and nothing beside it was written, and otherwise the first difference.
inline std::string difference(DType dtype, Buffer& got, const Bytes& want) {
    if (!got.canaries_alive()) {
        return "wrote outside its range";
    }
    const std::size_t size = size_of(dtype);
    for (std::size_t at = 0; at < want.size(); at += size) {
        if (std::memcmp(got.data() + at, want.data() + at, size) != 0) {
            std::uint64_t got_bits = 0;
            std::uint64_t want_bits = 0;
            std::memcpy(&got_bits, got.data() + at, size);
            std::memcpy(&want_bits, want.data() + at, size);
            return fmt::format("element {} is {:#x} instead of {:#x}", at / size, got_bits, want_bits);
        }
    }
    return "";
}

/// Returns the result of ops::reduce() with one destination.
inline Bytes reduced_by_cpu(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count) {
    std::vector<const std::byte*> from;
    for (const Bytes& source : sources) {
        from.push_back(source.data());
    }
    Bytes result(count * size_of(reduction.dtype));
    std::byte* const to = result.data();
    ops::reduce(reduction, from, {&to, 1}, count);
    return result;
}

}  // namespace rueda::ops::cuda::test
