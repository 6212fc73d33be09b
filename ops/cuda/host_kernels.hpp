// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

namespace rueda::ops::cuda {

/// The size of a grid or of a block, as in cuLaunchKernel.
struct Dimensions {
    std::uint32_t x = 1;
    std::uint32_t y = 1;
    std::uint32_t z = 1;
};

/// A kernel that runs on the host. Its arguments are those of cuLaunchKernel: `arguments` points to an array with the
/// addresses of the kernel's parameters. Each kernel has one parameter. All memory is host memory. The threads run one
/// after the other.
///
/// A load or store that a GPU would refuse, because the address is not aligned, ends the program with a message.
using HostKernel = void (*)(Dimensions grid, Dimensions block, void** arguments);

struct NamedHostKernel {
    const char* name;
    HostKernel run;
};

/// Returns all kernels of this folder.
[[nodiscard]] std::span<const NamedHostKernel> host_kernels();

/// Returns the kernel with this name, or null.
[[nodiscard]] HostKernel find_host_kernel(const char* name);

}  // namespace rueda::ops::cuda
