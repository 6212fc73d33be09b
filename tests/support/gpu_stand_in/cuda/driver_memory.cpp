// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/gpu_stand_in/cuda/call.hpp"
#include "tests/support/gpu_stand_in/cuda/memory.hpp"

// Memory, copies, and what the driver knows about a pointer.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

std::byte* pointer(DeviceAddress address) { return reinterpret_cast<std::byte*>(address); }

class Copy final : public Operation {
public:
    /// If the source is pageable memory, its bytes are read during the call, and `staged` contains them.
    Copy(const char* label, DeviceAddress to, DeviceAddress from, std::size_t bytes, bool to_is_known,
         bool from_is_known, std::vector<std::byte> staged)
        : Operation(label),
          to_(to),
          from_(from),
          bytes_(bytes),
          to_is_known_(to_is_known),
          from_is_known_(from_is_known),
          staged_(std::move(staged)) {}
    std::vector<Range> ranges() override {
        std::vector<Range> ranges;
        if (from_is_known_) {
            ranges.push_back({.address = from_, .bytes = bytes_, .write = false});
        }
        if (to_is_known_) {
            ranges.push_back({.address = to_, .bytes = bytes_, .write = true});
        }
        return ranges;
    }
    // CUDA Programming Guide, "Peer-to-Peer Memory Copy": a copy between devices needs no peer access.
    [[nodiscard]] bool reaches_other_devices() const override { return true; }
    bool run() override {
        std::memmove(pointer(to_), from_is_known_ ? pointer(from_) : staged_.data(), bytes_);
        return true;
    }

private:
    DeviceAddress to_;
    DeviceAddress from_;
    std::size_t bytes_;
    bool to_is_known_;
    bool from_is_known_;
    std::vector<std::byte> staged_;
};

class Fill final : public Operation {
public:
    Fill(DeviceAddress to, unsigned char value, std::size_t bytes)
        : Operation("cuMemsetD8Async"), to_(to), value_(value), bytes_(bytes) {}
    std::vector<Range> ranges() override { return {{.address = to_, .bytes = bytes_, .write = true}}; }
    bool run() override {
        std::memset(pointer(to_), value_, bytes_);
        return true;
    }

private:
    DeviceAddress to_;
    unsigned char value_;
    std::size_t bytes_;
};

/// Frees memory. All accesses must be ordered before the call. CUDA Driver API, cuMemFree: "may perform implicit
/// synchronization". So this function waits for the device, but a program that relies on this wait is wrong.
void free_memory(Call& call, Allocation& allocation, const char* function) {
    Machine& machine = call.machine();
    const DeviceAddress base = allocation.base;
    Clock clock = machine.host;
    const Time time = machine.host.advance(machine.host_actor());
    clock.raise(machine.host_actor(), time);
    for (auto& device : machine.devices) {
        if (allocation.device == device->ordinal || allocation.device == Allocation::kPinnedHost) {
            machine.wait_for_device(call.lock(), *device);
        }
    }
    Allocation* still = machine.memory->find(base);
    if (still == nullptr || still->is_freed) {
        call.report("two threads freed the same memory at the same time");
        return;
    }
    const Accessor accessor{
        .actor = machine.host_actor(), .time = time, .clock = &clock, .label = std::string(function) + " by the host"};
    (void)check_access(machine, {.address = base, .bytes = allocation.bytes, .write = true}, accessor);
    // CUDA Driver API, cuIpcOpenMemHandle: freeing exported memory before the importing process closed it is undefined.
    if (allocation.history->importers() > 0 && !allocation.is_imported) {
        call.report(fmt::format("allocation {} is still open in another process", allocation.number));
    }
    machine.memory->free(allocation);
}

CudaResult copy_now(Call& call, Stream& stream, DeviceAddress to, DeviceAddress from, std::size_t bytes) {
    // CUDA Driver API, "API synchronization behavior": a copy from host memory to host memory is synchronous.
    call.machine().wait(call.lock(), call.machine().work_of(stream));
    std::memmove(pointer(to), pointer(from), bytes);
    return kCudaSuccess;
}

/// CUDA Programming Guide, "Implicit Synchronization": an allocation of device memory or of pinned memory may prevent
/// work of different streams from running at the same time. Here it waits for all earlier work.
Allocation* allocate_memory(Call& call, std::size_t bytes, int device) {
    if (call.machine().settings.allocations_wait) {
        call.machine().wait_for_device(call.lock(), call.device());
    }
    return call.machine().memory->allocate(bytes, device);
}

CudaResult check_free(Call& call, Allocation* allocation, DeviceAddress address, bool is_pinned) {
    const bool is_right = allocation != nullptr && allocation->base == address && !allocation->is_imported &&
                          !allocation->is_from_nccl && !allocation->is_registered_host &&
                          is_pinned == (allocation->device == Allocation::kPinnedHost);
    if (!is_right || allocation->is_freed) {
        call.report(fmt::format("{:#x} is {}", address,
                                is_right ? "already free" : "not the beginning of memory that this function can free"));
        return kCudaInvalidValue;
    }
    return kCudaSuccess;
}

}  // namespace

extern "C" {

CudaResult cuMemAlloc_v2(DeviceAddress* address, std::size_t bytes) {
    Call call("cuMemAlloc");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    if (bytes == 0) {
        return kCudaInvalidValue;
    }
    const Allocation* allocation = allocate_memory(call, bytes, call.device().ordinal);
    if (allocation == nullptr) {
        return kCudaOutOfMemory;
    }
    *address = allocation->base;
    return kCudaSuccess;
}

CudaResult cuMemFree_v2(DeviceAddress address) {
    Call call("cuMemFree");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (address == 0) {
        return kCudaSuccess;
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    Allocation* allocation = call.machine().memory->find(address);
    if (const CudaResult wrong = check_free(call, allocation, address, false); wrong != kCudaSuccess) {
        return wrong;
    }
    free_memory(call, *allocation, "cuMemFree");
    return kCudaSuccess;
}

CudaResult cuMemGetAddressRange_v2(DeviceAddress* base, std::size_t* bytes, DeviceAddress address) {
    Call call("cuMemGetAddressRange");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Allocation* allocation = call.machine().memory->find(address);
    if (allocation == nullptr || allocation->is_freed || allocation->device == Allocation::kPinnedHost) {
        return kCudaNotFound;
    }
    if (base != nullptr) {
        *base = allocation->base;
    }
    if (bytes != nullptr) {
        *bytes = allocation->bytes;
    }
    return kCudaSuccess;
}

CudaResult cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
    Call call("cuMemHostAlloc");
    (void)flags;  // the flags change nothing: with unified addressing, pinned memory is always portable and mapped
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    if (bytes == 0) {
        return kCudaInvalidValue;
    }
    const Allocation* allocation = allocate_memory(call, bytes, Allocation::kPinnedHost);
    if (allocation == nullptr) {
        return kCudaOutOfMemory;
    }
    *address = reinterpret_cast<void*>(allocation->base);
    return kCudaSuccess;
}

CudaResult cuMemFreeHost(void* address) {
    Call call("cuMemFreeHost");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    const auto value = static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(address));
    Allocation* allocation = call.machine().memory->find(value);
    if (const CudaResult wrong = check_free(call, allocation, value, true); wrong != kCudaSuccess) {
        return wrong;
    }
    free_memory(call, *allocation, "cuMemFreeHost");
    return kCudaSuccess;
}

CudaResult cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
    Call call("cuMemHostRegister");
    (void)flags;  // the flags change nothing: with unified addressing, pinned memory is always portable and mapped
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    const auto value = static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(address));
    if (bytes == 0) {
        return kCudaInvalidValue;
    }
    // CUDA Driver API, cuMemHostRegister: fails with CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if the range is already
    // registered. Assumption: it also fails if the range only overlaps a registered one. The stand-in reports a
    // violation in both cases.
    if (call.machine().memory->find(value) != nullptr || call.machine().memory->find(value + bytes - 1) != nullptr) {
        call.report(fmt::format("{:#x} is pinned already", value));
        return kCudaInvalidValue;
    }
    if (call.machine().settings.allocations_wait) {
        call.machine().wait_for_device(call.lock(), call.device());
    }
    return call.machine().memory->add_host(value, bytes) != nullptr ? kCudaSuccess : kCudaOutOfMemory;
}

CudaResult cuMemHostUnregister(void* address) {
    Call call("cuMemHostUnregister");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    if (const CudaResult refused = call.refuse_during_capture(); refused != kCudaSuccess) {
        return refused;
    }
    const auto value = static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(address));
    Machine& machine = call.machine();
    Allocation* const allocation = machine.memory->find(value);
    // CUDA Driver API, cuMemHostUnregister: the address must be the one that cuMemHostRegister() got.
    if (allocation == nullptr || !allocation->is_registered_host || allocation->base != value) {
        call.report(fmt::format("{:#x} is not the beginning of memory that cuMemHostRegister() pinned", value));
        return kCudaInvalidValue;
    }
    // Assumption: all copies must be ordered before the call, as for cuMemFreeHost. The documentation does not say
    // whether the function waits for copies.
    Clock clock = machine.host;
    const Time time = machine.host.advance(machine.host_actor());
    clock.raise(machine.host_actor(), time);
    const Accessor accessor{
        .actor = machine.host_actor(), .time = time, .clock = &clock, .label = "cuMemHostUnregister by the host"};
    (void)check_access(machine, {.address = value, .bytes = allocation->bytes, .write = true}, accessor);
    machine.memory->remove_host(*allocation);
    return kCudaSuccess;
}

CudaResult cuMemcpyAsync(DeviceAddress to, DeviceAddress from, std::size_t bytes, CudaStream handle) {
    Call call("cuMemcpyAsync");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Machine& machine = call.machine();
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    const bool to_is_known = machine.memory->find(to) != nullptr;
    const bool from_is_known = machine.memory->find(from) != nullptr;
    if (!to_is_known && !from_is_known) {
        return copy_now(call, *stream, to, from, bytes);
    }
    // CUDA Driver API, "API synchronization behavior": pageable memory is copied to a staging buffer during the call,
    // and the driver may wait for the stream before that. A copy to pageable memory returns when the copy has ended.
    std::vector<std::byte> staged;
    if (!from_is_known) {
        if (machine.settings.pageable_copies_wait && stream->capture_status == kCaptureNone) {
            machine.wait(call.lock(), machine.work_of(*stream));
        }
        staged.assign(pointer(from), pointer(from) + bytes);
    }
    Device& device = *stream->device;
    auto operation =
        std::make_unique<Copy>("cuMemcpyAsync", to, from, bytes, to_is_known, from_is_known, std::move(staged));
    const CompletionPtr completion = operation->completion;
    const bool is_captured = stream->capture_status != kCaptureNone;
    machine.submit(*stream, std::move(operation));
    if (!to_is_known && !is_captured) {
        machine.wait(call.lock(), {completion});
        return device.error;
    }
    return kCudaSuccess;
}

CudaResult cuMemcpyPeerAsync(DeviceAddress to, CudaContext to_context, DeviceAddress from, CudaContext from_context,
                             std::size_t bytes, CudaStream handle) {
    Call call("cuMemcpyPeerAsync");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Machine& machine = call.machine();
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    // CUDA Driver API, cuMemcpyPeerAsync: each pointer must belong to the context argument beside it.
    const auto is_memory_of = [&](DeviceAddress address, CudaContext context) {
        const Allocation* allocation = machine.memory->find(address);
        const Device* device = machine.device_of(context);
        return allocation != nullptr && device != nullptr && allocation->device == device->ordinal;
    };
    if (!is_memory_of(to, to_context) || !is_memory_of(from, from_context)) {
        call.report("an address is not memory of the context that the call names for it");
        return kCudaInvalidValue;
    }
    machine.submit(*stream,
                   std::make_unique<Copy>("cuMemcpyPeerAsync", to, from, bytes, true, true, std::vector<std::byte>()));
    return kCudaSuccess;
}

CudaResult cuMemsetD8Async(DeviceAddress to, unsigned char value, std::size_t bytes, CudaStream handle) {
    Call call("cuMemsetD8Async");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Stream* stream = call.stream(handle);
    if (stream == nullptr) {
        return kCudaInvalidHandle;
    }
    if (call.machine().memory->find(to) == nullptr) {
        return kCudaInvalidValue;
    }
    call.machine().submit(*stream, std::make_unique<Fill>(to, value, bytes));
    return kCudaSuccess;
}

CudaResult cuPointerGetAttribute(void* value, int attribute, DeviceAddress address) {
    Call call("cuPointerGetAttribute", Call::Needs::initialisation);
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    // CUDA Driver API, cuPointerGetAttribute: an address that the driver does not know is an invalid value.
    const Allocation* allocation = call.machine().memory->find(address);
    if (allocation == nullptr || allocation->is_freed) {
        return kCudaInvalidValue;
    }
    const bool is_host = allocation->device == Allocation::kPinnedHost;
    if (attribute == kPointerMemoryType) {
        *static_cast<unsigned*>(value) = is_host ? kMemoryTypeHost : kMemoryTypeDevice;
        return kCudaSuccess;
    }
    if (attribute == kPointerDeviceOrdinal) {
        *static_cast<int*>(value) = is_host ? 0 : allocation->device;
        return kCudaSuccess;
    }
    return kCudaNotSupported;
}
}

GPU_STAND_IN_CHECK_TYPE(cuMemAlloc_v2, memory_allocate);
GPU_STAND_IN_CHECK_TYPE(cuMemFree_v2, memory_free);
GPU_STAND_IN_CHECK_TYPE(cuMemGetAddressRange_v2, memory_get_range);
GPU_STAND_IN_CHECK_TYPE(cuMemHostAlloc, host_allocate);
GPU_STAND_IN_CHECK_TYPE(cuMemFreeHost, host_free);
GPU_STAND_IN_CHECK_TYPE(cuMemHostRegister_v2, host_register);
GPU_STAND_IN_CHECK_TYPE(cuMemHostUnregister, host_unregister);
GPU_STAND_IN_CHECK_TYPE(cuMemcpyAsync, copy_async);
GPU_STAND_IN_CHECK_TYPE(cuMemcpyPeerAsync, copy_peer_async);
GPU_STAND_IN_CHECK_TYPE(cuMemsetD8Async, fill_async);
GPU_STAND_IN_CHECK_TYPE(cuPointerGetAttribute, pointer_get_attribute);
