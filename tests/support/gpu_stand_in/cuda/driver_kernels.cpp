// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gpu_stand_in/cuda/call.hpp"

// Modules and kernels. Every module has all kernels that the test registered.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

class KernelLaunch final : public Operation {
public:
    KernelLaunch(const std::string& name, Kernel kernel, Grid grid, Grid block, void** arguments)
        : Operation("kernel " + name), kernel_(std::move(kernel)), grid_(grid), block_(block) {
        // CUDA Driver API, cuLaunchKernel: the arguments are copied during the call.
        for (std::size_t i = 0; i < kernel_.argument_bytes.size(); ++i) {
            const auto* bytes = static_cast<const std::byte*>(arguments[i]);
            copies_.emplace_back(bytes, bytes + kernel_.argument_bytes[i]);
            pointers_.push_back(copies_.back().data());
        }
    }
    std::vector<Range> ranges() override {
        return kernel_.ranges ? kernel_.ranges(grid_, block_, pointers_.data()) : std::vector<Range>{};
    }
    bool run() override {
        kernel_.run(grid_, block_, pointers_.data());
        return true;
    }

private:
    Kernel kernel_;
    Grid grid_;
    Grid block_;
    std::vector<std::vector<std::byte>> copies_;
    std::vector<void*> pointers_;
};

}  // namespace

extern "C" {

CudaResult cuModuleLoadData(CudaModule* module, const void* image) {
    Call call("cuModuleLoadData");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (image == nullptr) {
        return kCudaInvalidValue;
    }
    *module = reinterpret_cast<CudaModule>(new char);
    call.machine().modules.insert(*module);
    return kCudaSuccess;
}

CudaResult cuModuleUnload(CudaModule module) {
    Call call("cuModuleUnload");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (call.machine().modules.erase(module) == 0) {
        return kCudaInvalidHandle;
    }
    delete reinterpret_cast<char*>(module);
    return kCudaSuccess;
}

CudaResult cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name) {
    Call call("cuModuleGetFunction");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Machine& machine = call.machine();
    if (machine.modules.count(module) == 0) {
        return kCudaInvalidHandle;
    }
    const auto found = machine.kernels.find(name);
    if (found == machine.kernels.end()) {
        return kCudaNotFound;
    }
    *function = reinterpret_cast<CudaFunction>(found->second.get());
    return kCudaSuccess;
}

CudaResult cuLaunchKernel(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, CudaStream handle,
                          void** arguments, void** extra) {
    Call call("cuLaunchKernel");
    (void)shared_bytes;
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Machine& machine = call.machine();
    auto* kernel = reinterpret_cast<Kernel*>(function);
    Stream* stream = call.stream(handle);
    const auto name = machine.kernel_names.find(kernel);
    if (stream == nullptr || name == machine.kernel_names.end()) {
        return kCudaInvalidHandle;
    }
    // CUDA Programming Guide, "Multi-Device System, Stream and Event Behavior": the launch of a kernel fails if the
    // stream belongs to another device than the current one.
    if (stream->device != &call.device()) {
        call.report("the stream is of another device than the current context");
        return kCudaInvalidHandle;
    }
    // CUDA Programming Guide, "Compute Capabilities": limits of all devices with compute capability 3.0 and later.
    const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
    const bool fits = threads > 0 && threads <= 1024 && block_z <= 64 && grid_x > 0 && grid_x < (1U << 31U) &&
                      grid_y > 0 && grid_y < 65536 && grid_z > 0 && grid_z < 65536;
    if (!fits || extra != nullptr) {
        return kCudaInvalidValue;
    }
    machine.submit(*stream, std::make_unique<KernelLaunch>(name->second, *kernel, Grid{grid_x, grid_y, grid_z},
                                                           Grid{block_x, block_y, block_z}, arguments));
    return kCudaSuccess;
}
}

GPU_STAND_IN_CHECK_TYPE(cuModuleLoadData, module_load_data);
GPU_STAND_IN_CHECK_TYPE(cuModuleUnload, module_unload);
GPU_STAND_IN_CHECK_TYPE(cuModuleGetFunction, module_get_function);
GPU_STAND_IN_CHECK_TYPE(cuLaunchKernel, launch_kernel);
