// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/call.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace rueda::tests::gpu {

thread_local int thread_capture_mode = collectives::cuda::kCaptureModeGlobal;

std::vector<Device*>& context_stack() {
    thread_local std::vector<Device*> stack;
    thread_local std::uint64_t generation = 0;
    if (generation != Machine::instance().generation) {  // the contexts of this thread are from before the last reset()
        stack.clear();
        generation = Machine::instance().generation;
        thread_capture_mode = collectives::cuda::kCaptureModeGlobal;
    }
    return stack;
}

Call::Call(const char* function, Needs needs) : function_(function) {
    machine_.ensure_devices();
    error_ = check(needs);
}

CudaResult Call::check(Needs needs) {
    using namespace collectives::cuda;
    // CUDA Driver API, cuLaunchHostFunc: a host function must not call the driver. If it does, the driver may return
    // this error.
    if (in_host_function) {
        machine_.report(fmt::format("{} was called by a host function", function_));
        return kCudaNotPermitted;
    }
    ++machine_.calls[function_];
    for (auto [failing, end] = machine_.settings.failing_calls.equal_range(function_); failing != end; ++failing) {
        if (--failing->second.first == 0) {
            return failing->second.second;
        }
    }
    if (needs == Needs::nothing) {
        return kCudaSuccess;
    }
    // CUDA Driver API, "Initialization": every function fails before cuInit(). After a fork(), the child process cannot
    // use the driver that its parent initialised.
    if (!machine_.is_initialised || machine_.process != ::getpid()) {
        return kCudaNotInitialized;
    }
    const auto& stack = context_stack();
    device_ = stack.empty() ? nullptr : stack.back();
    if (needs == Needs::context) {
        if (device_ == nullptr || device_->retained == 0) {
            return kCudaInvalidContext;
        }
        // CUDA Driver API, CUDA_ERROR_ILLEGAL_ADDRESS and others: "leaves the process in an inconsistent state and any
        // further CUDA work will return the same error".
        return device_->error;
    }
    return kCudaSuccess;
}

void Call::report(const std::string& what) { machine_.report(fmt::format("{}: {}", function_, what)); }

Stream* Call::stream(CudaStream handle) {
    Stream* stream = machine_.find_stream(handle, *device_);
    if (stream == nullptr) {
        report("the stream does not exist; it may have been destroyed");
    }
    return stream;
}

Event* Call::event(CudaEvent handle) {
    auto* event = reinterpret_cast<Event*>(handle);
    if (machine_.events.count(event) == 0) {
        report("the event does not exist; it may have been destroyed");
        return nullptr;
    }
    return event;
}

void invalidate_captures(Machine& machine) {
    for (auto& device : machine.devices) {
        for (auto& stream : device->streams) {
            if (stream->capture_status == collectives::cuda::kCaptureActive) {
                stream->capture_status = collectives::cuda::kCaptureInvalidated;
            }
        }
    }
}

// CUDA Driver API, cuThreadExchangeStreamCaptureMode: The mode of the calling thread decides which captures forbid a
// potentially unsafe call. In the thread-local mode, the thread's own captures forbid it, unless they were begun as
// relaxed. In the global mode, captures of any thread that were begun as global forbid it, too. In the relaxed mode, no
// capture forbids the call.
CudaResult Call::refuse_during_capture() {
    using namespace collectives::cuda;
    // If the thread's mode was set before the last reset(), context_stack() sets it to the default.
    (void)context_stack();
    for (auto& device : machine_.devices) {
        for (auto& stream : device->streams) {
            const bool is_own = stream->capture_thread == std::this_thread::get_id();
            const bool is_global = stream->capture_mode == kCaptureModeGlobal;
            const bool is_forbidden = (thread_capture_mode == kCaptureModeGlobal &&
                                       (is_global || (is_own && stream->capture_mode != kCaptureModeRelaxed))) ||
                                      (thread_capture_mode == kCaptureModeThreadLocal && is_own &&
                                       stream->capture_mode != kCaptureModeRelaxed);
            if (stream->capture_status == kCaptureActive && is_forbidden) {
                invalidate_captures(machine_);
                return kCudaCaptureUnsupported;
            }
        }
    }
    return kCudaSuccess;
}

}  // namespace rueda::tests::gpu
