// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <mutex>
#include <vector>

#include "tests/support/gpu_stand_in/cuda/machine.hpp"

namespace rueda::tests::gpu {

/// One call of a function of the driver: takes the mutex, counts the call, and finds the errors that every function can
/// return.
class Call {
public:
    enum class Needs : std::uint8_t { nothing, initialisation, context };

    explicit Call(const char* function, Needs needs = Needs::context);

    /// Returns the error that this call has found; the driver's function must then return it at once. Returns 0 if
    /// there is no error.
    [[nodiscard]] CudaResult error() const { return error_; }
    [[nodiscard]] Machine& machine() { return machine_; }
    [[nodiscard]] std::unique_lock<std::mutex>& lock() { return lock_; }
    [[nodiscard]] Device& device() { return *device_; }  ///< the device of the current context
    /// Returns the stream that has this handle. If there is none, reports a violation and returns null.
    [[nodiscard]] Stream* stream(CudaStream handle);
    [[nodiscard]] Event* event(CudaEvent handle);
    /// Returns an error if this call is forbidden while a stream captures a graph. This check is for all functions that
    /// CUDA calls "potentially unsafe" during a capture.
    [[nodiscard]] CudaResult refuse_during_capture();
    void report(const std::string& what);

private:
    [[nodiscard]] CudaResult check(Needs needs);

    const char* function_;
    Machine& machine_ = Machine::instance();
    std::unique_lock<std::mutex> lock_{machine_.mutex};
    Device* device_ = nullptr;
    CudaResult error_ = 0;
};

/// The stack of contexts of this thread. Each thread has its own (CUDA Driver API, "Context Management").
std::vector<Device*>& context_stack();
/// The mode of this thread for cuThreadExchangeStreamCaptureMode().
extern thread_local int thread_capture_mode;
/// Makes all captures that are in progress invalid.
void invalidate_captures(Machine& machine);

/// Checks that an exported function has the type that Rueda's table gives it.
#define GPU_STAND_IN_CHECK_TYPE(function, member) \
    static_assert(std::is_same_v<decltype(&(function)), decltype(::rueda::collectives::cuda::CudaApi::member)>)

}  // namespace rueda::tests::gpu
