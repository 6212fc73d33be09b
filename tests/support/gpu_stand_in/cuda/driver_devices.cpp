// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/gpu_stand_in/cuda/call.hpp"

// cuInit(), devices, contexts.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

struct ErrorText {
    CudaResult error;
    const char* name;
    const char* text;
};
constexpr ErrorText kErrorTexts[] = {
    {kCudaSuccess, "CUDA_SUCCESS", "no error"},
    {kCudaInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kCudaOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kCudaNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kCudaDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {kCudaStubLibrary, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {kCudaNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kCudaInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kCudaInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kCudaNoBinaryForDevice, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kCudaPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {kCudaInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kCudaNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kCudaNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kCudaIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kCudaPeerAccessEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {kCudaLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCudaNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kCudaNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCudaCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {kCudaCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {kCudaUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CudaResult find_text(CudaResult error, const char** result, const char* ErrorText::*member) {
    for (const ErrorText& known : kErrorTexts) {
        if (known.error == error) {
            *result = known.*member;
            return kCudaSuccess;
        }
    }
    *result = nullptr;
    return kCudaInvalidValue;
}

/// Called at the end of a program. Prints the violations that the program has not read itself. With
/// GPU_STAND_IN_STRICT=1, the program then ends with exit status 86.
void show_violations() {
    const std::vector<std::string> found = Machine::instance().violations();
    for (const std::string& text : found) {
        std::fprintf(stderr, "gpu_stand_in: %s\n", text.c_str());
    }
    const char* strict = std::getenv("GPU_STAND_IN_STRICT");  // NOLINT(concurrency-mt-unsafe): the program ends
    if (!found.empty() && strict != nullptr && std::string(strict) == "1") {
        constexpr int kStatus = 86;
        ::_exit(kStatus);
    }
}

Device* find_device(Machine& machine, CudaDevice ordinal) {
    const bool exists = ordinal >= 0 && static_cast<std::size_t>(ordinal) < machine.devices.size();
    return exists ? machine.devices[static_cast<std::size_t>(ordinal)].get() : nullptr;
}

int attribute_of(const Device& device, int attribute) {
    switch (attribute) {
        case kDeviceMultiprocessors:
            return 16;
        case kDevicePciBus:
            return 1 + device.ordinal;
        case kDeviceComputeMajor:
            return 9;
        // The PCI domain and device, the minor compute capability, and unknown attributes have the value 0.
        default:
            return 0;
    }
}

}  // namespace

extern "C" {

CudaResult cuInit(unsigned flags) {
    Call call("cuInit", Call::Needs::nothing);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Machine& machine = call.machine();
    if (machine.is_initialised && machine.process != ::getpid()) {
        return kCudaNotInitialized;
    }
    static const bool registered = std::atexit(show_violations) == 0;
    machine.is_initialised = registered;
    machine.process = ::getpid();
    return flags == 0 ? kCudaSuccess : kCudaInvalidValue;
}

CudaResult cuDriverGetVersion(int* version) {
    Call call("cuDriverGetVersion", Call::Needs::nothing);
    *version = 13000;
    return call.error();
}

CudaResult cuGetErrorName(CudaResult error, const char** name) { return find_text(error, name, &ErrorText::name); }
CudaResult cuGetErrorString(CudaResult error, const char** text) { return find_text(error, text, &ErrorText::text); }

CudaResult cuDeviceGetCount(int* count) {
    Call call("cuDeviceGetCount", Call::Needs::initialisation);
    *count = call.error() == kCudaSuccess ? static_cast<int>(call.machine().devices.size()) : 0;
    return call.error();
}

CudaResult cuDeviceGet(CudaDevice* device, int ordinal) {
    Call call("cuDeviceGet", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    *device = ordinal;
    return find_device(call.machine(), ordinal) == nullptr ? kCudaInvalidDevice : kCudaSuccess;
}

CudaResult cuDeviceGetName(char* name, int capacity, CudaDevice device) {
    Call call("cuDeviceGetName", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (find_device(call.machine(), device) == nullptr || capacity < 1) {
        return find_device(call.machine(), device) == nullptr ? kCudaInvalidDevice : kCudaInvalidValue;
    }
    const std::string text = "simulated device";
    name[text.copy(name, static_cast<std::size_t>(capacity) - 1)] = '\0';
    return kCudaSuccess;
}

CudaResult cuDeviceGetUuid_v2(CudaUuid* uuid, CudaDevice device) {
    Call call("cuDeviceGetUuid", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    std::memcpy(uuid->bytes, "gpu_stand_in_\0\0", sizeof(uuid->bytes));
    uuid->bytes[15] = static_cast<char>(device);
    return find_device(call.machine(), device) == nullptr ? kCudaInvalidDevice : kCudaSuccess;
}

CudaResult cuDeviceGetAttribute(int* value, int attribute, CudaDevice device) {
    Call call("cuDeviceGetAttribute", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Device* found = find_device(call.machine(), device);
    *value = found == nullptr ? 0 : attribute_of(*found, attribute);
    return found == nullptr ? kCudaInvalidDevice : kCudaSuccess;
}

CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
    Call call("cuDevicePrimaryCtxRetain", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Device* found = find_device(call.machine(), device);
    if (found == nullptr) {
        return kCudaInvalidDevice;
    }
    if (found->retained++ == 0) {
        ++call.machine().contexts_created;
    }
    call.machine().start_threads();
    *context = reinterpret_cast<CudaContext>(found);
    return kCudaSuccess;
}

CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device) {
    Call call("cuDevicePrimaryCtxRelease", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Device* found = find_device(call.machine(), device);
    if (found == nullptr || found->retained == 0) {
        return found == nullptr ? kCudaInvalidDevice : kCudaInvalidContext;
    }
    --found->retained;
    return kCudaSuccess;
}

CudaResult cuDevicePrimaryCtxGetState(CudaDevice device, unsigned* flags, int* active) {
    Call call("cuDevicePrimaryCtxGetState", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Device* found = find_device(call.machine(), device);
    *flags = 0;
    *active = found != nullptr && found->retained > 0 ? 1 : 0;
    return found == nullptr ? kCudaInvalidDevice : kCudaSuccess;
}

CudaResult cuCtxPushCurrent_v2(CudaContext context) {
    Call call("cuCtxPushCurrent", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Device* device = call.machine().device_of(context);
    if (device == nullptr || device->retained == 0) {
        call.report("the context does not exist");
        return kCudaInvalidContext;
    }
    context_stack().push_back(device);
    return kCudaSuccess;
}

CudaResult cuCtxPopCurrent_v2(CudaContext* context) {
    Call call("cuCtxPopCurrent", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    auto& stack = context_stack();
    if (stack.empty()) {
        return kCudaInvalidContext;
    }
    if (context != nullptr) {
        *context = reinterpret_cast<CudaContext>(stack.back());
    }
    stack.pop_back();
    return kCudaSuccess;
}

CudaResult cuCtxGetCurrent(CudaContext* context) {
    Call call("cuCtxGetCurrent", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    auto& stack = context_stack();
    *context = stack.empty() ? nullptr : reinterpret_cast<CudaContext>(stack.back());
    return kCudaSuccess;
}

/// Only the Python tests use this function, through ctypes.
CudaResult cuCtxGetDevice(CudaDevice* device) {
    Call call("cuCtxGetDevice", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const auto& stack = context_stack();
    if (stack.empty()) {
        return kCudaInvalidContext;
    }
    *device = stack.back()->ordinal;
    return kCudaSuccess;
}

CudaResult cuDeviceCanAccessPeer(int* can, CudaDevice device, CudaDevice peer) {
    Call call("cuDeviceCanAccessPeer", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const bool exist = find_device(call.machine(), device) != nullptr && find_device(call.machine(), peer) != nullptr;
    *can = exist && device != peer ? 1 : 0;
    return exist ? kCudaSuccess : kCudaInvalidDevice;
}

CudaResult cuCtxEnablePeerAccess(CudaContext peer, unsigned flags) {
    Call call("cuCtxEnablePeerAccess");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Device* found = call.machine().device_of(peer);
    if (found == nullptr || found == &call.device() || flags != 0) {
        return found == nullptr ? kCudaInvalidContext : kCudaInvalidValue;
    }
    // CUDA Driver API, cuCtxEnablePeerAccess: enabling the access a second time is an error.
    const bool is_new = call.device().peers.insert(found->ordinal).second;
    return is_new ? kCudaSuccess : kCudaPeerAccessEnabled;
}

CudaResult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    Call call("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return call.error();
}
}

GPU_STAND_IN_CHECK_TYPE(cuInit, init);
GPU_STAND_IN_CHECK_TYPE(cuDriverGetVersion, driver_get_version);
GPU_STAND_IN_CHECK_TYPE(cuGetErrorName, get_error_name);
GPU_STAND_IN_CHECK_TYPE(cuGetErrorString, get_error_string);
GPU_STAND_IN_CHECK_TYPE(cuDeviceGetCount, device_get_count);
GPU_STAND_IN_CHECK_TYPE(cuDeviceGet, device_get);
GPU_STAND_IN_CHECK_TYPE(cuDeviceGetName, device_get_name);
GPU_STAND_IN_CHECK_TYPE(cuDeviceGetUuid_v2, device_get_uuid);
GPU_STAND_IN_CHECK_TYPE(cuDeviceGetAttribute, device_get_attribute);
GPU_STAND_IN_CHECK_TYPE(cuDevicePrimaryCtxRetain, primary_context_retain);
GPU_STAND_IN_CHECK_TYPE(cuDevicePrimaryCtxRelease_v2, primary_context_release);
GPU_STAND_IN_CHECK_TYPE(cuDevicePrimaryCtxGetState, primary_context_get_state);
GPU_STAND_IN_CHECK_TYPE(cuCtxPushCurrent_v2, context_push);
GPU_STAND_IN_CHECK_TYPE(cuCtxPopCurrent_v2, context_pop);
GPU_STAND_IN_CHECK_TYPE(cuCtxGetCurrent, context_get_current);
GPU_STAND_IN_CHECK_TYPE(cuDeviceCanAccessPeer, device_can_access_peer);
GPU_STAND_IN_CHECK_TYPE(cuCtxEnablePeerAccess, context_enable_peer_access);
GPU_STAND_IN_CHECK_TYPE(cuCtxGetStreamPriorityRange, context_get_stream_priority_range);
