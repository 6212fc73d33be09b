// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/ipc/ipc_device.hpp"

#include <algorithm>

namespace rueda::collectives::cuda {

Result<CudaStream> IpcDevice::stream() {
    const std::scoped_lock lock(mutex_);
    if (stream_ == nullptr) {
        auto made = device_->make_stream();
        RUEDA_RETURN_IF_FAILED(made.status());
        stream_ = made.value();
    }
    return stream_;
}

Result<ExportedMemory> IpcDevice::take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto fits = [bytes](const Retired& one) { return one.opened_by.empty() && one.memory.bytes == bytes; };
    ExportedMemory memory;
    if (const auto found = std::find_if(retired_.begin(), retired_.end(), fits); found != retired_.end()) {
        memory = found->memory;
        retired_.erase(found);
    } else {
        auto allocated = allocate(bytes);
        RUEDA_RETURN_IF_FAILED(allocated.status());
        memory = allocated.value();
    }
    // Each export gets a token, which is a different number for every export of every process. The token is computed
    // from the random number of the process, the number of the device, and the number of the export. A token is never
    // 0.
    constexpr std::uint64_t kMostExports = std::uint64_t{1} << 32;
    const auto device = static_cast<std::uint64_t>(device_->ordinal());
    memory.token = std::max<std::uint64_t>(process_ * 0x9e3779b97f4a7c15 + device * kMostExports + ++exports_, 1);
    return memory;
}

Result<ExportedMemory> IpcDevice::allocate(std::size_t bytes) {
    const CudaApi& api = device_->api();
    const RelaxedCapture relaxed(api);
    const ContextScope scope(api, device_->context());
    if (scope.error() != kCudaSuccess) {
        return device_->failure_of("cuCtxPushCurrent", scope.error());
    }
    ExportedMemory memory{.bytes = bytes};
    if (const CudaResult result = api.memory_allocate(&memory.address, bytes); result != kCudaSuccess) {
        return device_->failure_of("cuMemAlloc", result);
    }
    if (const CudaResult result = api.ipc_get_memory_handle(&memory.handle, memory.address); result != kCudaSuccess) {
        static_cast<void>(api.memory_free(memory.address));  // freeing is safe here: no other process has a handle to
                                                             // this memory
        return device_->failure_of("cuIpcGetMemHandle", result);
    }
    return memory;
}

void IpcDevice::give_back(ExportedMemory memory, std::vector<std::uint64_t> opened_by) noexcept {
    try {
        const std::scoped_lock lock(mutex_);
        retired_.push_back({memory, std::move(opened_by)});
    } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the list, the memory is not used again
    }
}

Result<DeviceAddress> IpcDevice::open(const CudaIpcMemory& handle) {
    const CudaApi& api = device_->api();
    const RelaxedCapture relaxed(api);
    const ContextScope scope(api, device_->context());
    if (scope.error() != kCudaSuccess) {
        return device_->failure_of("cuCtxPushCurrent", scope.error());
    }
    DeviceAddress address = 0;
    // cuIpcOpenMemHandle() has only the flag kIpcLazyEnablePeer, and requires it. With this flag, the driver enables
    // the access to another device's memory.
    const CudaResult result = api.ipc_open_memory_handle(&address, handle, kIpcLazyEnablePeer);
    if (result != kCudaSuccess) {
        return device_->failure_of("cuIpcOpenMemHandle", result);
    }
    return address;
}

void IpcDevice::close(DeviceAddress address, std::uint64_t token) noexcept {
    const CudaApi& api = device_->api();
    const RelaxedCapture relaxed(api);
    const ContextScope scope(api, device_->context());
    const bool is_closed =
        address == 0 || (scope.error() == kCudaSuccess && api.ipc_close_memory_handle(address) == kCudaSuccess);
    if (is_closed) {
        const std::scoped_lock lock(mutex_);
        closed_[closed_count_++ % kTokens] = token;
    }
}

IpcDevice::Tokens IpcDevice::closed() const {
    const std::scoped_lock lock(mutex_);
    return closed_;
}

void IpcDevice::note_closed(std::uint64_t process, std::span<const std::uint64_t> tokens) {
    const std::scoped_lock lock(mutex_);
    for (Retired& one : retired_) {
        if (std::find(tokens.begin(), tokens.end(), one.memory.token) != tokens.end()) {
            std::erase(one.opened_by, process);
        }
    }
}

}  // namespace rueda::collectives::cuda
