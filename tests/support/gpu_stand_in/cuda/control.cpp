// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/control.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/support/gpu_stand_in/cuda/call.hpp"
#include "tests/support/gpu_stand_in/cuda/machine.hpp"
#include "tests/support/gpu_stand_in/cuda/memory.hpp"

namespace rueda::tests::gpu {
namespace {

/// Gives access to the machine. While this object exists, the machine's mutex is locked.
struct Held {
    Machine& machine = Machine::instance();
    std::unique_lock<std::mutex> lock{machine.mutex};
    Machine* operator->() { return &machine; }
};

Device* device_number(Machine& machine, int ordinal) {
    machine.ensure_devices();
    const auto number = static_cast<std::size_t>(ordinal);
    return number < machine.devices.size() ? machine.devices[number].get() : nullptr;
}

}  // namespace

void reset(std::uint64_t seed, int devices) {
    Held held;
    held->reset(held.lock, seed, devices);
}

std::vector<std::string> violations() {
    settle();
    return Machine::instance().violations();
}
void settle() {
    Held held;
    held->settle(held.lock);
}
void clear_violations() { Machine::instance().clear_violations(); }

void set_delays(std::chrono::microseconds most) { Held()->settings.delays = most; }
void delay_operations(const std::string& part, std::chrono::microseconds delay) {
    Held()->settings.label_delays.emplace_back(part, delay);
}

void set_allocations_wait(bool wait) { Held()->settings.allocations_wait = wait; }
void set_pageable_copies_wait(bool wait) { Held()->settings.pageable_copies_wait = wait; }

void hold_device(int device) {
    Held held;
    if (Device* found = device_number(held.machine, device); found != nullptr) {
        found->is_held = true;
    }
}

void release_device(int device) {
    Held held;
    if (Device* found = device_number(held.machine, device); found != nullptr) {
        found->is_held = false;
    }
    held->changed.notify_all();
}

void fail_call(const std::string& function, int nth, int result) {
    Held()->settings.failing_calls.emplace(function, std::make_pair(nth, result));
}
void fail_operation(int nth, NcclResult result) { Held()->settings.failing_operations.emplace_back(nth, result); }

void break_device(int device, CudaResult error) {
    Held held;
    if (Device* found = device_number(held.machine, device); found != nullptr) {
        held->break_device(*found, error);
    }
}

int contexts_created() { return Held()->contexts_created; }

std::size_t outstanding() { return Held()->outstanding(); }

std::size_t calls(const std::string& function) {
    Held held;
    const auto found = held->calls.find(function);
    return found == held->calls.end() ? 0 : found->second;
}

std::size_t host_waits() { return Held()->host_waits; }
std::size_t allocated_bytes() { return Held()->memory->device_bytes(); }
std::size_t live_events() { return Held()->events.size(); }

std::size_t live_streams() {
    Held held;
    std::size_t sum = 0;
    for (auto& device : held->devices) {
        for (auto& stream : device->streams) {
            sum += stream->is_legacy || stream->is_destroyed ? 0U : 1U;
        }
    }
    return sum;
}

void host_access(DeviceAddress address, std::size_t bytes, bool write) {
    Held held;
    Machine& machine = held.machine;
    machine.memory->exchange(machine.host);
    const Time time = machine.host.advance(machine.host_actor());
    const Accessor accessor{
        .actor = machine.host_actor(), .time = time, .clock = &machine.host, .label = "the host program"};
    (void)check_access(machine, {.address = address, .bytes = bytes, .write = write}, accessor);
}

bool is_known(const void* address) {
    Held held;
    return held.machine.memory->find(static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(address))) != nullptr;
}

// CUDA Driver API, cuStreamBeginCapture: the legacy default stream cannot capture.
CudaResult begin_capture(CudaStream handle, int mode) {
    Call call("cuStreamBeginCapture");
    if (call.error() != 0) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr || stream->is_legacy || stream->capture_status != collectives::cuda::kCaptureNone) {
        return collectives::cuda::kCudaInvalidValue;
    }
    stream->capture_status = collectives::cuda::kCaptureActive;
    stream->capture_mode = mode;
    stream->capture_thread = std::this_thread::get_id();
    return collectives::cuda::kCudaSuccess;
}

CudaResult end_capture(CudaStream handle) {
    constexpr CudaResult kInvalidated = 901;  // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    Call call("cuStreamEndCapture");
    if (call.error() != 0) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr || stream->capture_status == collectives::cuda::kCaptureNone) {
        return collectives::cuda::kCudaInvalidValue;
    }
    const bool is_valid = stream->capture_status == collectives::cuda::kCaptureActive;
    for (auto& device : call.machine().devices) {  // the other streams that joined the capture leave it
        for (auto& other : device->streams) {
            if (other->capture_status != collectives::cuda::kCaptureNone &&
                other->capture_thread == stream->capture_thread && other.get() != stream) {
                other->capture_status = collectives::cuda::kCaptureNone;
            }
        }
    }
    stream->capture_status = collectives::cuda::kCaptureNone;
    return is_valid ? collectives::cuda::kCudaSuccess : kInvalidated;
}

void register_kernel(const std::string& name, Kernel kernel) {
    Held held;
    held->ensure_devices();
    auto owned = std::make_unique<Kernel>(std::move(kernel));
    held->kernel_names[owned.get()] = name;
    held->kernels[name] = std::move(owned);
}

void set_nccl_version(int version) { Held()->settings.nccl_version = version; }
void set_nccl_progress_calls(int most) { Held()->settings.nccl_progress_calls = most; }
void set_one_nccl_kernel_at_a_time(bool one) { Held()->settings.one_nccl_kernel = one; }
void set_nccl_notices_lost_ranks(bool notices) { Held()->settings.nccl_notices_lost_ranks = notices; }
std::size_t live_communicators() { return Held()->communicators; }
std::vector<std::string> nccl_operations() { return Held()->nccl_operations; }

}  // namespace rueda::tests::gpu
