// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/kernels.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>

#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/load_cuda.hpp"

namespace rueda::collectives::cuda {
namespace {

/// If a compilation takes longer than this, a line in the log explains the slow start.
constexpr std::chrono::milliseconds kLongCompilation{1000};

constexpr DType kAllTypes[] = {DType::uint8,   DType::int8,          DType::int32,      DType::int64,
                               DType::float16, DType::bfloat16,      DType::float32,    DType::float64,
                               DType::boolean, DType::int16,         DType::uint16,     DType::uint32,
                               DType::uint64,  DType::float8_e4m3fn, DType::float8_e5m2};
static_assert(std::size(kAllTypes) == kDTypeCount);

/// Calls the function `with` for the name of every kernel. Stops at the first failure and returns it.
template <class With>
Status for_each_kernel(With&& with) {
    for (const char* const name : {ops::cuda::kCopyKernel, ops::cuda::kFillKernel, ops::cuda::kAdasumLanesKernel,
                                   ops::cuda::kAdasumWeightsKernel}) {
        RUEDA_RETURN_IF_FAILED(with(name));
    }
    for (const DType dtype : kAllTypes) {
        for (const char* const name : {ops::cuda::reduce_kernel(dtype), ops::cuda::scale_kernel(dtype),
                                       ops::cuda::adasum_products_kernel(dtype), ops::cuda::adasum_sum_kernel(dtype)}) {
            RUEDA_RETURN_IF_FAILED(name == nullptr ? Status() : with(name));
        }
        for (const DType to : kAllTypes) {
            const char* const name = ops::cuda::convert_kernel(dtype, to);
            RUEDA_RETURN_IF_FAILED(name == nullptr ? Status() : with(name));
        }
    }
    return {};
}

}  // namespace

Kernels::Kernels(const CudaApi& api, int device, CudaContext context, std::string_view image)
    : api_(api), device_(device), context_(context), image_(image) {}

Status Kernels::failure_of(const char* call, CudaResult error) const {
    return cuda_failure(api_, error == kCudaOutOfMemory ? ErrorCode::resource_exhausted : ErrorCode::aborted, call,
                        device_, error);
}

const Status& Kernels::load(const Note& note) {
    std::call_once(once_, [&] {
        const auto start = std::chrono::steady_clock::now();
        loaded_ = load_all();
        const auto took =
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
        if (!note) {
            return;
        }
        if (!loaded_.is_ok()) {
            note(fmt::format("{}; operations on this GPU go on without Rueda's kernels, and some are slower",
                             loaded_.message()));
        } else if (took >= kLongCompilation) {
            note(
                fmt::format("the driver compiled Rueda's kernels for GPU {} in {} ms; it keeps the result on disk for "
                            "later processes",
                            device_, took.count()));
        }
    });
    return loaded_;
}

/// Looks up all functions now, and none later. A driver that loads lazily copies a kernel to the device in
/// cuModuleGetFunction(), and this function may wait for the device's work (CUDA Programming Guide, "Lazy Loading").
/// Such a wait must not happen later, while a kernel of NCCL waits for another rank.
Status Kernels::load_all() {
    if (image_.empty()) {
        return failure(
            ErrorCode::unsupported,
            "this build of Rueda has no kernels for GPU {}, because neither nvcc nor clang was found when it "
            "was built",
            device_);
    }
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    if (scope.error() != kCudaSuccess) {
        return failure_of("cuCtxPushCurrent", scope.error());
    }
    CudaModule module = nullptr;
    if (const CudaResult result = api_.module_load_data(&module, image_.data()); result != kCudaSuccess) {
        return cuda_failure(api_, ErrorCode::unsupported, "cuModuleLoadData of Rueda's kernels", device_, result);
    }
    return for_each_kernel([&](const char* name) { return find(module, name); });
}

Status Kernels::find(CudaModule module, const char* name) {
    CudaFunction function = nullptr;
    if (const CudaResult result = api_.module_get_function(&function, module, name); result != kCudaSuccess) {
        return cuda_failure(api_, ErrorCode::unsupported, fmt::format("cuModuleGetFunction of {}", name).c_str(),
                            device_, result);
    }
    functions_.emplace(name, function);
    return {};
}

Status Kernels::launch_kernel(const char* name, ops::cuda::Geometry geometry, void* argument, CudaStream stream) {
    RUEDA_RETURN_IF_FAILED(load());
    const auto found = functions_.find(name);
    if (found == functions_.end()) {
        return failure(ErrorCode::internal, "there is no kernel {}", name);
    }
    const RelaxedCapture relaxed(api_);
    const ContextScope scope(api_, context_);
    if (scope.error() != kCudaSuccess) {
        return failure_of("cuCtxPushCurrent", scope.error());
    }
    std::array<void*, 1> arguments{argument};
    const CudaResult result = api_.launch_kernel(found->second, geometry.blocks, geometry.rows, 1, ops::cuda::kThreads,
                                                 1, 1, 0, stream, arguments.data(), nullptr);
    return result == kCudaSuccess ? Status() : failure_of(fmt::format("cuLaunchKernel of {}", name).c_str(), result);
}

}  // namespace rueda::collectives::cuda
