// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "test_device.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdint>

#include "ops/cuda/kernel_image.hpp"

namespace rueda::ops::cuda::test {

/// The library stays open until the process ends.
TestDevice::TestDevice() {
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
        throw NoDevice("libcuda.so.1 cannot be opened");
    }
    if (kernel_image().empty()) {
        throw NoDevice("Rueda was built without device kernels");
    }
    int device = 0;
    try {
        check(function_of<int(unsigned)>("cuInit")(0), "cuInit");
        check(function_of<int(int*, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
    } catch (const std::runtime_error& error) {
        throw NoDevice(error.what());
    }
    std::array<char, 128> name{};
    check(function_of<int(char*, int, int)>("cuDeviceGetName")(name.data(), name.size() - 1, device),
          "cuDeviceGetName");
    name_ = name.data();
    void* context = nullptr;
    check(function_of<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
    check(function_of<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    check(function_of<int(void**, const void*)>("cuModuleLoadData")(&module_, kernel_image().data()),
          "cuModuleLoadData");
}

void TestDevice::run(const std::string& kernel, Dimensions grid, Dimensions block, void* argument) const {
    void* function = nullptr;
    check(function_of<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, module_, kernel.c_str()),
          "cuModuleGetFunction " + kernel);
    void* parameters[] = {argument};
    using Launch =
        int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
    check(function_of<Launch>("cuLaunchKernel")(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, nullptr,
                                                parameters, nullptr),
          "cuLaunchKernel " + kernel);
    check(function_of<int()>("cuCtxSynchronize")(), "cuCtxSynchronize after " + kernel);
}

void* TestDevice::allocate(std::size_t bytes) const {
    constexpr unsigned kAttachGlobal = 1;
    std::uint64_t memory = 0;
    check(function_of<int(std::uint64_t*, std::size_t, unsigned)>("cuMemAllocManaged")(&memory, bytes, kAttachGlobal),
          "cuMemAllocManaged");
    return reinterpret_cast<void*>(memory);
}

void TestDevice::release(void* memory) const {
    check(function_of<int(std::uint64_t)>("cuMemFree_v2")(reinterpret_cast<std::uint64_t>(memory)), "cuMemFree");
}

template <class Function>
Function* TestDevice::function_of(const char* symbol) const {
    void* const found = ::dlsym(library_, symbol);
    if (found == nullptr) {
        throw std::runtime_error(std::string("libcuda.so.1 has no ") + symbol);
    }
    return reinterpret_cast<Function*>(found);
}

void TestDevice::check(int result, const std::string& call) const {
    if (result != 0) {
        const char* name = nullptr;
        function_of<int(int, const char**)>("cuGetErrorName")(result, &name);
        throw std::runtime_error(call + ": " + (name != nullptr ? name : "error " + std::to_string(result)));
    }
}

}  // namespace rueda::ops::cuda::test
