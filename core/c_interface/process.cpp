// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/c_interface/process.hpp"

namespace rueda::core::c_interface {

Status not_initialized() {
    if (process().forked.load(std::memory_order_relaxed)) {
        return {ErrorCode::not_initialized,
                "this process was forked from one that uses Rueda, and cannot use it itself: call Rueda in the parent "
                "only"};
    }
    return {ErrorCode::not_initialized, "Rueda is not initialised: call rueda::init() first"};
}

Result<Runtime*> current_runtime() {
    Runtime* runtime = process().current.load(std::memory_order_acquire);
    if (runtime == nullptr) [[unlikely]] {
        return not_initialized();
    }
    return runtime;
}

void end_job(Runtime& runtime, const std::string& reason) {
    process().knows_of_abort.store(true, std::memory_order_relaxed);
    if (!runtime.aborted()) {
        process().launcher.load(std::memory_order_acquire)->become_the_cause();
        runtime.abort(reason);
    }
}

}  // namespace rueda::core::c_interface
