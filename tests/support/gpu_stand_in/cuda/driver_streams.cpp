// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tests/support/gpu_stand_in/cuda/call.hpp"

// Streams, their capture, and host functions.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

constexpr CudaResult kCaptureInvalid = 901;   // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
constexpr CudaResult kCaptureImplicit = 906;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT

class HostFunction final : public Operation {
public:
    HostFunction(CudaHostFunction function, void* argument)
        : Operation("cuLaunchHostFunc", Kind::host_function), function_(function), argument_(argument) {}
    // CUDA Driver API, cuLaunchHostFunc: the function is not called after an error in the context. So this class does
    // not override drop(), which runs after an error.
    bool run() override {
        function_(argument_);
        return true;
    }

private:
    CudaHostFunction function_;
    void* argument_;
};

/// CUDA Driver API, cuStreamQuery and cuStreamSynchronize: a program must neither query a capturing stream nor wait for
/// it. The attempt invalidates the capture.
CudaResult check_capture(Stream& stream) {
    if (stream.capture_status == kCaptureNone) {
        return kCudaSuccess;
    }
    const bool was_active = stream.capture_status == kCaptureActive;
    stream.capture_status = kCaptureInvalidated;
    return was_active ? kCudaCaptureUnsupported : kCaptureInvalid;
}

CudaResult prepare_to_look(Call& call, Stream& stream) {
    if (stream.nccl_calls > 0) {
        call.report("the stream is used while NCCL's call for the stream is in progress");
    }
    const CudaResult captured = check_capture(stream);
    return captured != kCudaSuccess ? captured : call.refuse_during_capture();
}

}  // namespace

extern "C" {

CudaResult cuStreamCreateWithPriority(CudaStream* stream, unsigned flags, int priority) {
    Call call("cuStreamCreateWithPriority");
    (void)priority;  // priorities are only hints, so they are ignored (CUDA Driver API, cuStreamCreateWithPriority)
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream& made = call.machine().add_stream(call.device());
    made.is_blocking = (flags & kStreamNonBlocking) == 0;
    *stream = reinterpret_cast<CudaStream>(&made);
    return kCudaSuccess;
}

CudaResult cuStreamDestroy_v2(CudaStream handle) {
    Call call("cuStreamDestroy");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr || stream->is_legacy) {
        return kCudaInvalidHandle;
    }
    // CUDA Driver API, cuStreamDestroy: returns at once; the resources are released when the work has ended.
    stream->is_destroyed = true;
    if (stream->queue.empty()) {
        std::erase_if(stream->device->streams, [&](const auto& other) { return other.get() == stream; });
    }
    return kCudaSuccess;
}

CudaResult cuStreamQuery(CudaStream handle) {
    Call call("cuStreamQuery");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    if (const CudaResult refused = prepare_to_look(call, *stream); refused != kCudaSuccess) {
        return refused;
    }
    if (stream->device->error != kCudaSuccess) {
        return stream->device->error;
    }
    const auto work = call.machine().work_of(*stream);
    if (!std::all_of(work.begin(), work.end(), [](const auto& completion) { return completion->done; })) {
        return kCudaNotReady;
    }
    // the work has ended, so this call does not wait; it only records that the host program comes after the work
    call.machine().wait(call.lock(), work);
    return kCudaSuccess;
}

CudaResult cuStreamSynchronize(CudaStream handle) {
    Call call("cuStreamSynchronize");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    if (const CudaResult refused = prepare_to_look(call, *stream); refused != kCudaSuccess) {
        return refused;
    }
    // The reference to the device stays valid even if another thread destroys the stream during the wait.
    Device& device = *stream->device;
    call.machine().wait(call.lock(), call.machine().work_of(*stream));
    return device.error;
}

CudaResult cuStreamIsCapturing(CudaStream handle, int* status) {
    Call call("cuStreamIsCapturing");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    *status = stream->capture_status;
    // CUDA Driver API, cuStreamIsCapturing: it is an error to ask about the legacy stream while a blocking stream of
    // the context captures. The capture stays valid.
    const auto& streams = stream->device->streams;
    const bool another = std::any_of(streams.begin(), streams.end(), [](const auto& other) {
        return other->is_blocking && other->capture_status != kCaptureNone;
    });
    return stream->is_legacy && another ? kCaptureImplicit : kCudaSuccess;
}

CudaResult cuThreadExchangeStreamCaptureMode(int* mode) {
    Call call("cuThreadExchangeStreamCaptureMode", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (*mode < kCaptureModeGlobal || *mode > kCaptureModeRelaxed) {
        return kCudaInvalidValue;
    }
    (void)context_stack();
    std::swap(*mode, thread_capture_mode);
    return kCudaSuccess;
}

CudaResult cuLaunchHostFunc(CudaStream handle, CudaHostFunction function, void* argument) {
    Call call("cuLaunchHostFunc");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    call.machine().submit(*stream, std::make_unique<HostFunction>(function, argument));
    return kCudaSuccess;
}
}

GPU_STAND_IN_CHECK_TYPE(cuStreamCreateWithPriority, stream_create_with_priority);
GPU_STAND_IN_CHECK_TYPE(cuStreamDestroy_v2, stream_destroy);
GPU_STAND_IN_CHECK_TYPE(cuStreamQuery, stream_query);
GPU_STAND_IN_CHECK_TYPE(cuStreamSynchronize, stream_synchronize);
GPU_STAND_IN_CHECK_TYPE(cuStreamIsCapturing, stream_is_capturing);
GPU_STAND_IN_CHECK_TYPE(cuThreadExchangeStreamCaptureMode, thread_exchange_capture_mode);
GPU_STAND_IN_CHECK_TYPE(cuLaunchHostFunc, launch_host_function);
