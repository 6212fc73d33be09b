// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/memory/pinned_memory.hpp"

#include <utility>

namespace rueda::collectives::cuda {

Result<std::unique_ptr<PinnedMemory>> RegisteredMemory::pin(std::shared_ptr<Device> device, std::byte* memory,
                                                            std::size_t bytes) {
    const RelaxedCapture relaxed(device->api());
    const ContextScope scope(device->api(), device->context());
    if (scope.error() != kCudaSuccess) {
        return device->failure_of("cuCtxPushCurrent", scope.error());
    }
    const CudaResult result = device->api().host_register(memory, bytes, kRegisterPortable);
    if (result != kCudaSuccess) {
        return failure(ErrorCode::resource_exhausted,
                       "{} bytes of memory could not be pinned for GPU {}: {}; use less pinned memory, or raise the "
                       "limit of locked memory (ulimit -l)",
                       bytes, device->ordinal(), device->failure_of("cuMemHostRegister", result).message());
    }
    return std::unique_ptr<PinnedMemory>(std::make_unique<RegisteredMemory>(std::move(device), memory));
}

Status RegisteredMemory::note_work(void* stream) {
    auto recorded = device_->record(static_cast<CudaStream>(stream));
    const std::scoped_lock lock(mutex_);
    if (!recorded.is_ok()) {
        unknown_work_ = recorded.status();
        return unknown_work_;
    }
    work_.push_back(std::move(recorded).value());
    return {};
}

Result<bool> RegisteredMemory::is_idle() {
    const std::scoped_lock lock(mutex_);
    RUEDA_RETURN_IF_FAILED(unknown_work_);
    while (!work_.empty()) {
        Result<bool> is_done = work_.back()->is_done();
        if (!is_done.is_ok() || !is_done.value()) {
            return is_done;
        }
        work_.pop_back();
    }
    return true;
}

Status RegisteredMemory::unpin() {
    const RelaxedCapture relaxed(device_->api());
    const ContextScope scope(device_->api(), device_->context());
    if (scope.error() != kCudaSuccess) {
        return device_->failure_of("cuCtxPushCurrent", scope.error());
    }
    const CudaResult result = device_->api().host_unregister(memory_);
    return result == kCudaSuccess ? Status() : device_->failure_of("cuMemHostUnregister", result);
}

}  // namespace rueda::collectives::cuda
