// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "base/system/logging.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::core {

/// Returns the devices of this process. The first call loads librueda_cuda.so; a process without tensors on a GPU never
/// loads it. All Runtimes of a process share the object, which lives until the process ends, because the driver cannot
/// be unloaded. If the plugin or the driver cannot be used, returns Unsupported, and the message says what to do. A
/// later call tries again. Any thread.
[[nodiscard]] Result<collectives::DeviceRuntime*> open_devices(const base::Config& config, const base::Logger& logger);

/// Returns the devices if open_devices() has opened them; otherwise null. Any thread.
[[nodiscard]] collectives::DeviceRuntime* opened_devices();

}  // namespace rueda::core
