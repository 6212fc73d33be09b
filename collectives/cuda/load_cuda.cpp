// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/load_cuda.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

namespace rueda::collectives::cuda {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";
constexpr const char* kDriverName = "NVIDIA's driver library libcuda.so.1";

/// Returns advice for the user, for errors that usually have the same cause.
const char* usual_advice(CudaResult error) {
    switch (error) {
        case kCudaStubLibrary:
            return "the library is the CUDA Toolkit's stub, which contains no driver; remove the toolkit's folder "
                   "\"stubs\" from LD_LIBRARY_PATH";
        case kCudaNoDevice:
            return "this process sees no GPU; look at nvidia-smi and at the variable CUDA_VISIBLE_DEVICES";
        case kCudaOutOfMemory:
            return "the GPU has too little free memory; look at nvidia-smi for other processes on this GPU";
        case kCudaNoPtxCompiler:
            return "the driver's compiler libnvidia-ptxjitcompiler.so.1 cannot be loaded; install all libraries of "
                   "NVIDIA's driver, or, in a container, start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility";
        case kCudaIllegalAddress:
        case kCudaLaunchFailed:
            return "an earlier kernel of this process failed, and all GPU work of this process ends with it; run the "
                   "program with CUDA_LAUNCH_BLOCKING=1 to find the kernel";
        case kCudaDeinitialized:
            return "the process is ending; call shutdown before the end of the program";
        case kCudaNotInitialized:
            return "the process was forked after it had used a GPU, or the driver does not work; start processes "
                   "with \"spawn\"";
        default:
            return "";
    }
}

std::string text_of(const CudaApi& api, CudaResult error) {
    const char* name = nullptr;
    const char* text = nullptr;
    if (api.get_error_name == nullptr || api.get_error_name(error, &name) != kCudaSuccess || name == nullptr) {
        name = "an error without a name";
    }
    if (api.get_error_string == nullptr || api.get_error_string(error, &text) != kCudaSuccess || text == nullptr) {
        text = "the driver has no text for it";
    }
    return fmt::format("{} ({}): {}", name, error, text);
}

}  // namespace

Status fill_cuda_api(CudaApi& api, const std::string& library, const FindFunction& find) {
#define RUEDA_CUDA_FILL(member, symbol, ...)                                                                          \
    api.member = reinterpret_cast<decltype(api.member)>(find(symbol));                                                \
    if (api.member == nullptr) {                                                                                      \
        return failure(ErrorCode::unsupported,                                                                        \
                       "{} has no function {}, so the driver is older than CUDA 11.4: install a newer NVIDIA driver", \
                       library, symbol);                                                                              \
    }
    RUEDA_CUDA_FUNCTIONS(RUEDA_CUDA_FILL)
#undef RUEDA_CUDA_FILL
    return {};
}

Status cuda_failure(const CudaApi& api, ErrorCode code, const char* call, int device, CudaResult error,
                    const char* advice) {
    const std::string where = device < 0 ? "" : fmt::format(" on GPU {}", device);
    const std::string_view hint = *advice != '\0' ? advice : usual_advice(error);
    return failure(code, "{} failed{}: {}{}{}", call, where, text_of(api, error), hint.empty() ? "" : "; ", hint);
}

Status initialise_cuda(const CudaApi& api) {
    if (const CudaResult error = api.init(0); error != kCudaSuccess) {
        return cuda_failure(api, ErrorCode::unsupported, "cuInit", -1, error);
    }
    int count = 0;
    if (const CudaResult error = api.device_get_count(&count); error != kCudaSuccess) {
        return cuda_failure(api, ErrorCode::unsupported, "cuDeviceGetCount", -1, error);
    }
    if (count == 0) {
        return failure(ErrorCode::unsupported, "cuDeviceGetCount found no GPU: {}", usual_advice(kCudaNoDevice));
    }
    return {};
}

Result<CudaApi> load_cuda() {
    void* const library = ::dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): the text is the thread's own
        return failure(ErrorCode::unsupported,
                       "{} cannot be loaded: {}; install NVIDIA's driver, or, in a container, start it with the GPUs "
                       "(docker run --gpus all)",
                       kDriverName, text == nullptr ? "no reason given" : text);
    }
    CudaApi api;
    RUEDA_RETURN_IF_FAILED(
        fill_cuda_api(api, kDriverName, [library](const char* symbol) { return ::dlsym(library, symbol); }));
    RUEDA_RETURN_IF_FAILED(initialise_cuda(api));
    return api;
}

}  // namespace rueda::collectives::cuda
