// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/runtime/devices.hpp"

#include <memory>
#include <mutex>

#include "collectives/cuda/load_plugin.hpp"

namespace rueda::core {

Result<collectives::DeviceRuntime*> open_devices(const base::Config& config, const base::Logger& logger) {
    static std::mutex mutex;  // a thread that holds this mutex takes no other lock
    // the object is never destroyed, because streams may still have work when static objects are destroyed
    static auto* const devices = new std::unique_ptr<collectives::DeviceRuntime>;
    const std::lock_guard lock(mutex);
    if (*devices == nullptr) {
        const auto plugin = collectives::load_cuda_plugin(config.cuda_library);
        RUEDA_RETURN_IF_FAILED(plugin.status());
        auto opened = plugin.value()->open({.nccl_library = config.nccl_library,
                                            .note = [logger](const std::string& text) { logger.info("{}", text); },
                                            .warn = [logger](const std::string& text) { logger.warning("{}", text); }});
        RUEDA_RETURN_IF_FAILED(opened.status());
        *devices = std::move(opened).value();
    }
    return devices->get();
}

}  // namespace rueda::core
