// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The functions of rueda/data.h for pinned memory.
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include "base/settings/config.hpp"
#include "base/settings/environment.hpp"
#include "base/system/logging.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/runtime/devices.hpp"
#include "rueda/data.h"

/// The pinned memory to which a pointer of the C interface points.
struct rueda_data_pinned {
    std::unique_ptr<rueda::collectives::PinnedMemory> memory;
};

namespace {

using rueda::ErrorCode;
using rueda::failure;
using rueda::Result;
using rueda::Status;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::guarded;

/// How long rueda_data_unpin() waits for the device. Nothing wakes a thread when the device reaches an event, so the
/// thread asks again.
constexpr auto kUnpinPatience = std::chrono::seconds(5);
constexpr auto kUnpinPause = std::chrono::microseconds(50);

Result<rueda::collectives::DeviceRuntime*> devices_for_pinning() {
    if (rueda::collectives::DeviceRuntime* const opened = rueda::core::opened_devices()) {
        return opened;
    }
    const Result<rueda::base::Config> config = rueda::base::read_config(rueda::base::process_environment());
    RUEDA_RETURN_IF_FAILED(config.status());
    return rueda::core::open_devices(config.value(), rueda::base::Logger(config.value()));
}

Status check_is_pinned(const rueda_data_pinned* pinned) {
    return pinned != nullptr ? Status() : failure(ErrorCode::invalid_argument, "the pinned memory is NULL");
}

}  // namespace

extern "C" {

int rueda_data_pin(void* memory, size_t bytes, int32_t device_index, rueda_data_pinned** pinned) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_place(pinned, "pinned memory"));
        if (memory == nullptr || bytes == 0) {
            return failure(ErrorCode::invalid_argument, "pinning memory: the memory is NULL or has no bytes");
        }
        const auto devices = devices_for_pinning();
        if (!devices.is_ok()) {
            return failure(devices.status().code(), "pinning memory: {}", devices.status().message());
        }
        auto pinned_memory = devices.value()->pin(device_index, static_cast<std::byte*>(memory), bytes);
        if (!pinned_memory.is_ok()) {
            return failure(pinned_memory.status().code(), "pinning memory: {}", pinned_memory.status().message());
        }
        *pinned = std::make_unique<rueda_data_pinned>(rueda_data_pinned{std::move(pinned_memory).value()}).release();
        return {};
    });
}

int rueda_data_pinned_note_work(rueda_data_pinned* pinned, void* stream) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_is_pinned(pinned));
        return pinned->memory->note_work(stream);
    });
}

int rueda_data_pinned_is_idle(rueda_data_pinned* pinned, int32_t* idle) {
    return guarded([&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_is_pinned(pinned));
        RUEDA_RETURN_IF_FAILED(check_place(idle, "answer"));
        const Result<bool> is_idle = pinned->memory->is_idle();
        RUEDA_RETURN_IF_FAILED(is_idle.status());
        *idle = is_idle.value() ? 1 : 0;
        return {};
    });
}

int rueda_data_unpin(rueda_data_pinned* pinned) {
    return guarded([&]() -> Status {
        if (pinned == nullptr) {
            return {};
        }
        const std::unique_ptr<rueda_data_pinned> owned(pinned);
        const auto deadline = std::chrono::steady_clock::now() + kUnpinPatience;
        for (;;) {
            const Result<bool> is_idle = pinned->memory->is_idle();
            RUEDA_RETURN_IF_FAILED(is_idle.status());
            if (is_idle.value()) {
                return pinned->memory->unpin();
            }
            if (std::chrono::steady_clock::now() >= deadline) {
                return failure(ErrorCode::timeout, "unpinning memory: the device has not done its work with it in 5 s");
            }
            std::this_thread::sleep_for(kUnpinPause);
        }
    });
}

}  // extern "C"
