// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Resident memory. A program may free it even after the end of its job.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>

#include "base/status.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/process.hpp"
#include "core/runtime/devices.hpp"
#include "core/runtime/runtime.hpp"
#include "core/termination/memory_guard.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Result;
using rueda::Status;
using rueda::core::Runtime;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::guarded;
using rueda::core::c_interface::process;

namespace {

/// Returns the job of this process that allocated the memory. Returns null if no job of this process did.
Runtime* owner_of(const void* memory) {
    const std::lock_guard lock(process().runtimes_mutex);
    const auto& runtimes = process().runtimes;
    const auto owner =
        std::find_if(runtimes.rbegin(), runtimes.rend(), [memory](const auto& one) { return one->owns(memory); });
    return owner != runtimes.rend() ? owner->get() : nullptr;
}

}  // namespace

extern "C" {

int rueda_allocate(size_t bytes, void** memory) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(memory, "memory's address"));
        Result<void*> allocated = runtime.value()->allocate(bytes);
        RUEDA_RETURN_IF_FAILED(allocated.status());
        *memory = allocated.value();
        return {};
    });
}

int rueda_allocate_on_device(int32_t device_type, int32_t device_index, size_t bytes, void** memory) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(memory, "memory's address"));
        if (device_type != RUEDA_CUDA) {
            return rueda::failure(ErrorCode::invalid_argument,
                                  "allocate: the type of the device is {}; expected 1 (CUDA)", device_type);
        }
        Result<void*> allocated = runtime.value()->allocate_on_device(device_index, bytes);
        if (!allocated.is_ok()) {
            return rueda::failure(allocated.status().code(), "allocate: {}", allocated.status().message());
        }
        *memory = allocated.value();
        return {};
    });
}

int rueda_deallocate(void* memory) {
    return guarded([&]() -> Status {
        if (memory == nullptr || process().forked.load(std::memory_order_relaxed)) {
            return {};
        }
        if (Runtime* owner = owner_of(memory)) {
            if (rueda::core::notes_memory()) [[unlikely]] {
                if (const std::string tensor = rueda::core::pending_tensor_in(memory, owner->block_bytes(memory));
                    !tensor.empty()) {
                    owner->logger().error(
                        "deallocate: {} is the memory of {}, whose operation is pending; it is kept for good: wait for "
                        "the operation before its memory is given back",
                        memory, tensor);
                    return rueda::failure(ErrorCode::invalid_argument,
                                          "deallocate: {} is the memory of {}, whose operation is pending; expected "
                                          "memory that no operation uses: wait for the operation first",
                                          memory, tensor);
                }
            }
            // A child process that was forked after the end of the job has not mapped this memory. The child may have
            // mapped something else at the address, so it frees nothing.
            return owner->pid() == getpid() ? owner->deallocate(memory) : Status();
        }
        if (rueda::collectives::DeviceRuntime* const devices = rueda::core::opened_devices();
            devices != nullptr && devices->deallocate(memory)) {
            return {};
        }
        return rueda::failure(ErrorCode::invalid_argument, "{} is not memory of rueda::allocate", memory);
    });
}

}  // extern "C"
