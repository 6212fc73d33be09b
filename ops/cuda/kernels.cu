// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// The device kernels. nvcc or clang compiles this file to PTX (cmake/RuedaCuda.cmake). It is not part of the host
// build.

#include "ops/cuda/kernel_list.hpp"

namespace rueda::ops::cuda {

#define RUEDA_CUDA_KERNEL(name, Arguments, body) \
    RUEDA_KERNEL void name(const Arguments arguments) { body(arguments, this_place()); }
RUEDA_CUDA_KERNELS(RUEDA_CUDA_KERNEL)
#undef RUEDA_CUDA_KERNEL

}  // namespace rueda::ops::cuda
