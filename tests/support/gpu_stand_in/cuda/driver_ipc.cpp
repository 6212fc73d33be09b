// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/support/gpu_stand_in/cuda/call.hpp"
#include "tests/support/gpu_stand_in/cuda/memory.hpp"
#include "tests/support/gpu_stand_in/cuda/shared_event.hpp"

// Memory and events of other processes. They lie in a file of the process that created them. A handle has the process's
// id and its descriptor of the file.

using namespace rueda::collectives::cuda;
using namespace rueda::tests::gpu;

namespace {

constexpr CudaResult kMapFailed = 205;  // CUDA_ERROR_MAP_FAILED
constexpr std::uint32_t kMemoryMagic = 0x6d656d31;
constexpr std::uint32_t kEventMagic = 0x65766e31;

struct Handle {
    std::uint32_t magic = 0;
    int process = 0;
    int file = -1;
    int device = 0;
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
};
static_assert(sizeof(Handle) <= sizeof(CudaIpcMemory));

template <typename Reserved>
void write_handle(Reserved* reserved, const Handle& handle) {
    std::memset(reserved, 0, sizeof(*reserved));
    std::memcpy(reserved, &handle, sizeof(handle));
}

template <typename Reserved>
Handle read_handle(const Reserved& reserved) {
    Handle handle;
    std::memcpy(static_cast<void*>(&handle), &reserved, sizeof(handle));
    return handle;
}

std::uint64_t inode_of(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 ? status.st_ino : 0;
}

/// Opens the file of the other process, or returns -1 if it does not exist any more.
int open_file(const Handle& handle) {
    const std::string path = fmt::format("/proc/{}/fd/{}", handle.process, handle.file);
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file >= 0 && inode_of(file) != handle.inode) {
        ::close(file);
        return -1;
    }
    return file;
}

Allocation* find_opened(Memory& memory, const Handle& handle, int importing_device) {
    for (auto& [base, allocation] : memory.all()) {
        if (allocation->is_imported && !allocation->is_freed && allocation->inode == handle.inode &&
            allocation->importing_device == importing_device) {
            return allocation.get();
        }
    }
    return nullptr;
}

}  // namespace

extern "C" {

CudaResult cuIpcGetMemHandle(CudaIpcMemory* handle, DeviceAddress address) {
    Call call("cuIpcGetMemHandle");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    // CUDA Driver API, cuIpcGetMemHandle: the pointer must be the base of memory from cuMemAlloc().
    Allocation* allocation = call.machine().memory->find(address);
    if (allocation == nullptr || allocation->is_freed || allocation->is_imported || allocation->base != address ||
        allocation->device == Allocation::kPinnedHost) {
        return kCudaInvalidValue;
    }
    call.machine().memory->set_exported(*allocation);
    write_handle(handle, {.magic = kMemoryMagic,
                          .process = ::getpid(),
                          .file = allocation->file,
                          .device = allocation->device,
                          .inode = allocation->inode,
                          .bytes = allocation->bytes});
    return kCudaSuccess;
}

CudaResult cuIpcOpenMemHandle_v2(DeviceAddress* address, CudaIpcMemory reserved, unsigned flags) {
    Call call("cuIpcOpenMemHandle");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Handle handle = read_handle(reserved);
    if (handle.magic != kMemoryMagic || flags != kIpcLazyEnablePeer) {
        return handle.magic != kMemoryMagic ? kCudaInvalidHandle : kCudaInvalidValue;
    }
    // CUDA Driver API, cuIpcOpenMemHandle: the memory must be from another process.
    if (handle.process == ::getpid()) {
        return kCudaInvalidContext;
    }
    Memory& memory = *call.machine().memory;
    if (Allocation* opened = find_opened(memory, handle, call.device().ordinal); opened != nullptr) {
        ++opened->opened;
        *address = opened->base;
        return kCudaSuccess;
    }
    const int file = open_file(handle);
    if (file < 0) {
        call.report("the memory was freed, or its process has ended");
        return kMapFailed;
    }
    const Allocation* allocation = memory.import(file, handle.bytes, handle.device, call.device().ordinal);
    if (allocation == nullptr) {
        return kMapFailed;
    }
    *address = allocation->base;
    return kCudaSuccess;
}

CudaResult cuIpcCloseMemHandle(DeviceAddress address) {
    Call call("cuIpcCloseMemHandle");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    Machine& machine = call.machine();
    Allocation* allocation = machine.memory->find(address);
    if (allocation == nullptr || allocation->is_freed || !allocation->is_imported || allocation->base != address) {
        return kCudaInvalidValue;
    }
    if (--allocation->opened > 0) {
        return kCudaSuccess;
    }
    // CUDA Driver API, cuIpcCloseMemHandle: the call unmaps the memory. It does not promise to wait for work
    // that uses the memory, so the host program must know that this work has ended. Running work would crash the test's
    // process when the memory is unmapped. So the stand-in waits for the work, and reports it.
    const Clock clock = machine.host;
    machine.wait_for_device(call.lock(), call.device());
    allocation->history->find_unordered(::getpid(), clock, [&](const std::string& access) {
        call.report(fmt::format("allocation {} is unmapped, but the host program does not know that {} has ended",
                                allocation->number, access));
    });
    machine.memory->free(*allocation);
    return kCudaSuccess;
}

CudaResult cuIpcGetEventHandle(CudaIpcEvent* handle, CudaEvent event_handle) {
    Call call("cuIpcGetEventHandle");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Event* event = call.event(event_handle);
    // CUDA Driver API, cuIpcGetEventHandle: the event must have been created with CU_EVENT_INTERPROCESS.
    if (event == nullptr || (event->flags & kEventInterprocess) == 0) {
        return kCudaInvalidHandle;
    }
    write_handle(handle, {.magic = kEventMagic,
                          .process = ::getpid(),
                          .file = event->shared->file(),
                          .device = event->device->ordinal,
                          .inode = inode_of(event->shared->file())});
    return kCudaSuccess;
}

CudaResult cuIpcOpenEventHandle(CudaEvent* result, CudaIpcEvent reserved) {
    Call call("cuIpcOpenEventHandle");
    if (call.error() != kCudaSuccess) {
        return call.error();
    }
    const Handle handle = read_handle(reserved);
    if (handle.magic != kEventMagic) {
        return kCudaInvalidHandle;
    }
    // CUDA Driver API, cuIpcOpenEventHandle: the event must be from another process.
    if (handle.process == ::getpid()) {
        return kCudaInvalidContext;
    }
    const int file = open_file(handle);
    if (file < 0) {
        call.report("the event was destroyed, or its process has ended");
        return kMapFailed;
    }
    auto event = std::make_unique<Event>();
    event->device = &call.device();
    event->flags = kEventDisableTiming;
    event->shared = SharedEvent::open(file);
    if (event->shared == nullptr) {
        return kMapFailed;
    }
    call.machine().events.insert(event.get());
    *result = reinterpret_cast<CudaEvent>(event.release());
    return kCudaSuccess;
}
}

GPU_STAND_IN_CHECK_TYPE(cuIpcGetMemHandle, ipc_get_memory_handle);
GPU_STAND_IN_CHECK_TYPE(cuIpcOpenMemHandle_v2, ipc_open_memory_handle);
GPU_STAND_IN_CHECK_TYPE(cuIpcCloseMemHandle, ipc_close_memory_handle);
GPU_STAND_IN_CHECK_TYPE(cuIpcGetEventHandle, ipc_get_event_handle);
GPU_STAND_IN_CHECK_TYPE(cuIpcOpenEventHandle, ipc_open_event_handle);
