// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/runtime/devices.hpp"

#include <memory>
#include <mutex>

#include "collectives/cuda/load_plugin.hpp"

namespace rueda::core {

namespace {

struct OpenedDevices {
    std::mutex mutex;  // a thread that holds this mutex takes no other lock
    std::unique_ptr<collectives::DeviceRuntime> runtime;
};

/// Never destroyed: streams may still have work when static objects are destroyed.
OpenedDevices& opened() {
    static auto* const devices = new OpenedDevices;
    return *devices;
}

}  // namespace

Result<collectives::DeviceRuntime*> open_devices(const base::Config& config, const base::Logger& logger) {
    OpenedDevices& devices = opened();
    const std::lock_guard lock(devices.mutex);
    if (devices.runtime == nullptr) {
        const auto plugin = collectives::load_cuda_plugin(config.cuda_library);
        RUEDA_RETURN_IF_FAILED(plugin.status());
        auto made = plugin.value()->open({.nccl_library = config.nccl_library,
                                          .note = [logger](const std::string& text) { logger.info("{}", text); },
                                          .warn = [logger](const std::string& text) { logger.warning("{}", text); }});
        RUEDA_RETURN_IF_FAILED(made.status());
        devices.runtime = std::move(made).value();
    }
    return devices.runtime.get();
}

collectives::DeviceRuntime* opened_devices() {
    OpenedDevices& devices = opened();
    const std::lock_guard lock(devices.mutex);
    return devices.runtime.get();
}

}  // namespace rueda::core
