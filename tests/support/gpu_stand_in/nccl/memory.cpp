// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/cuda/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/cuda/nccl_api.hpp"
#include "tests/support/gpu_stand_in/nccl/communicator.hpp"

// Memory that NCCL allocates, and its registration with communicators.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

extern "C" CudaResult cuMemAlloc_v2(DeviceAddress* address, std::size_t bytes);
extern "C" CudaResult cuMemFree_v2(DeviceAddress address);

namespace rueda::tests::gpu {

const Communicator::Registered* Communicator::find_registered(DeviceAddress address) const {
    const auto found = std::find_if(registered.begin(), registered.end(), [address](const auto& one) {
        return address >= one.second.begin && address - one.second.begin < one.second.bytes;
    });
    return found == registered.end() ? nullptr : &found->second;
}

}  // namespace rueda::tests::gpu

namespace {

DeviceAddress address_of(const void* memory) {
    return static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(memory));
}

/// Returns the allocation for an address that ncclMemAlloc() returned. For other addresses, reports a violation and
/// returns null. NCCL User Guide, "Memory Allocator": ncclMemFree() takes what ncclMemAlloc() returned. Assumption:
/// ncclCommRegister() takes the same. The real NCCL can also register a part of an allocation, and then the
/// offsets of all ranks count from the allocation's head ("User Buffer Registration"). Rueda always registers whole
/// allocations.
Allocation* find_memory(NcclCall& call, const void* memory) {
    Allocation* const found = call.machine().memory->find(address_of(memory));
    if (found == nullptr || found->is_freed || !found->is_from_nccl || found->base != address_of(memory)) {
        call.report("the address is not the beginning of memory of ncclMemAlloc()");
        return nullptr;
    }
    return found;
}

bool is_registered(DeviceAddress begin) {
    return std::any_of(communicators().begin(), communicators().end(),
                       [begin](const auto& one) { return one.second->find_registered(begin) != nullptr; });
}

}  // namespace

extern "C" {

NcclResult ncclMemAlloc(void** memory, std::size_t bytes) {
    {
        const NcclCall call("ncclMemAlloc");
        if (call.error() != kNcclSuccess) {
            return call.error();
        }
    }
    DeviceAddress address = 0;
    if (cuMemAlloc_v2(&address, bytes) != kCudaSuccess) {
        return kNcclUnhandledCudaError;
    }
    const std::lock_guard lock(Machine::instance().mutex);
    Machine::instance().memory->find(address)->is_from_nccl = true;
    *memory = reinterpret_cast<void*>(address);
    return kNcclSuccess;
}

/// NCCL, src/allocator.cc: the memory is unmapped at once, without a wait for the device.
NcclResult ncclMemFree(void* memory) {
    {
        NcclCall call("ncclMemFree");
        if (call.error() != kNcclSuccess) {
            return call.error();
        }
        Allocation* const found = find_memory(call, memory);
        if (found == nullptr) {
            return kNcclInvalidArgument;
        }
        // NCCL User Guide, "ncclCommDeregister": the memory must be deregistered before it is freed.
        if (is_registered(found->base)) {
            call.report("the memory is registered with a communicator");
        }
        found->is_from_nccl = false;
    }
    return cuMemFree_v2(address_of(memory)) == kCudaSuccess ? kNcclSuccess : kNcclUnhandledCudaError;
}

NcclResult ncclCommRegister(NcclCommunicator handle, void* memory, std::size_t bytes, void** registration) {
    NcclCall call("ncclCommRegister");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find_ready(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    const Allocation* const found = find_memory(call, memory);
    if (found == nullptr || bytes > found->bytes || found->device != communicator->device->ordinal) {
        return kNcclInvalidArgument;
    }
    *registration = reinterpret_cast<void*>(++communicator->registrations);
    communicator->registered[*registration] = {.begin = found->base, .bytes = bytes};
    return kNcclSuccess;
}

NcclResult ncclCommDeregister(NcclCommunicator handle, void* registration) {
    NcclCall call("ncclCommDeregister");
    const CommunicatorPtr communicator = call.error() == kNcclSuccess ? call.find_ready(handle) : nullptr;
    if (communicator == nullptr) {
        return call.error();
    }
    const auto found = communicator->registered.find(registration);
    if (found == communicator->registered.end()) {
        call.report("the registration does not exist");
        return kNcclInvalidArgument;
    }
    // Assumption: until the operation has ended, the kernels of other ranks use the registration to reach the memory.
    // The NCCL User Guide does not say when a registration may end.
    if (communicator->last_kernel != nullptr && !communicator->last_kernel->done) {
        call.report("the device still works on an operation of the communicator");
    }
    communicator->registered.erase(found);
    return kNcclSuccess;
}
}

#define GPU_STAND_IN_CHECK_NCCL(function, member) \
    static_assert(std::is_same_v<decltype(&(function)), decltype(NcclApi::member)>)
GPU_STAND_IN_CHECK_NCCL(ncclMemAlloc, allocate_memory);
GPU_STAND_IN_CHECK_NCCL(ncclMemFree, free_memory);
GPU_STAND_IN_CHECK_NCCL(ncclCommRegister, register_memory);
GPU_STAND_IN_CHECK_NCCL(ncclCommDeregister, deregister_memory);
