// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstdint>

#include "base/status.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/process.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

using rueda::Result;
using rueda::Status;
using rueda::core::Runtime;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::guarded;

extern "C" {

int rueda_timeline_start(const char* path, int mark_cycles) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        return runtime.value()->start_timeline(path == nullptr ? "" : path, mark_cycles != 0);
    });
}

int rueda_timeline_stop(void) {
    return guarded([]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        runtime.value()->stop_timeline();
        return {};
    });
}

int rueda_timeline_scope(const char* name, int64_t began_ns) {
    return guarded([&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        runtime.value()->add_timeline_scope(name == nullptr ? "" : name, began_ns);
        return {};
    });
}

}  // extern "C"
