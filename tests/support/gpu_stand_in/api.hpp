// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "collectives/cuda/cuda_api.hpp"
#include "collectives/cuda/nccl_api.hpp"

namespace rueda::tests::gpu {

/// Fills a pointer of a table with the library's function.
template <typename Function>
void resolve_function(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, symbol));
    if (function == nullptr) {
        throw std::runtime_error(std::string("the library has no ") + symbol);
    }
}

inline void* open_library(const char* name) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        throw std::runtime_error(std::string(name) + " cannot be loaded; is NVIDIA's driver installed?");
    }
    return library;
}

/// Loads the driver's library by its soname, as a program does, and returns its functions.
inline collectives::cuda::CudaApi open_cuda() {
    collectives::cuda::CudaApi api;
    void* library = open_library("libcuda.so.1");
#define GPU_STAND_IN_RESOLVE(member, symbol, ...) resolve_function(library, symbol, api.member);
    RUEDA_CUDA_FUNCTIONS(GPU_STAND_IN_RESOLVE)
    return api;
}

inline collectives::cuda::NcclApi open_nccl() {
    collectives::cuda::NcclApi api;
    void* library = open_library("libnccl.so.2");
    RUEDA_NCCL_FUNCTIONS(GPU_STAND_IN_RESOLVE)
    RUEDA_NCCL_MEMORY_FUNCTIONS(GPU_STAND_IN_RESOLVE)
#undef GPU_STAND_IN_RESOLVE
    return api;
}

}  // namespace rueda::tests::gpu
