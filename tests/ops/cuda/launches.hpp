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

/// Runs a kernel with one parameter of `bytes` bytes: on the host, as PTX, or on a GPU (main.cpp).
void run_kernel(const char* name, Dimensions grid, void* argument, std::size_t bytes);

/// Whether the next comparison of a long series should run. Kernels run slowly as PTX, so in that case only every 25th
/// comparison runs.
bool is_chosen();

/// Runs the kernel of `launch`. If `blocks` is 0, the launch itself says how many blocks the grid has.
template <class Arguments>
void run(const Launch<Arguments>& launch, std::uint32_t blocks = 0) {
    REQUIRE(launch.kernel != nullptr);
    Arguments arguments = launch.arguments;
    const Dimensions grid{blocks != 0 ? blocks : launch.geometry.blocks, launch.geometry.rows, 1};
    run_kernel(launch.kernel, grid, &arguments, sizeof(arguments));
}

/// Returns "" if the buffer has the given content and no byte beside the buffer was changed. Otherwise describes the
/// first difference.
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
