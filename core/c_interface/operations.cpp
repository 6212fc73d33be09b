// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Operations on a whole tensor, and operations without a tensor.
#include <cstdint>
#include <memory>

#include "base/assert.hpp"
#include "base/status.hpp"
#include "core/c_interface/call.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/handle.hpp"
#include "core/c_interface/process.hpp"
#include "core/operations/requests.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Result;
using rueda::Status;
using rueda::collectives::Operation;
using rueda::core::Runtime;
using rueda::core::c_interface::called;
using rueda::core::c_interface::called_wait;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::options_of_next;
using rueda::core::c_interface::run;
using rueda::core::c_interface::start;
using rueda::core::c_interface::start_and_wait;

namespace {

int start_join(int32_t average, const rueda_options& options, rueda_handle** handle) {
    return called(&options, [&]() -> Status {
        Result<Runtime*> runtime = current_runtime();
        RUEDA_RETURN_IF_FAILED(runtime.status());
        RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
        if (average != RUEDA_JOIN_AVERAGE_ALL && average != RUEDA_JOIN_AVERAGE_ACTIVE) {
            return rueda::failure(ErrorCode::invalid_argument,
                                  "join: average is {}; expected 0 or 1 (rueda_join_average)", average);
        }
        auto started = std::make_unique<rueda_handle>(runtime.value(), 1);
        started->note_site(options.source_file, options.source_line);
        RUEDA_RETURN_IF_FAILED(runtime.value()->start_join(*started, average == RUEDA_JOIN_AVERAGE_ALL,
                                                           options.source_file, options.source_line));
        *handle = started.release();
        return {};
    });
}

}  // namespace

extern "C" {

int rueda_allreduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                          const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, {.operation = Operation::allreduce, .in = in, .out = out}, options, handle);
    });
}

int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, const rueda_options* options) {
    return called_wait(options,
                       [&] { return run(name, {.operation = Operation::allreduce, .in = in, .out = out}, options); });
}

int rueda_broadcast_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                          const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, {.operation = Operation::broadcast, .in = in, .out = out, .root = root}, options, handle);
    });
}

int rueda_broadcast(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                    const rueda_options* options) {
    return called_wait(options, [&] {
        return run(name, {.operation = Operation::broadcast, .in = in, .out = out, .root = root}, options);
    });
}

int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, {.operation = Operation::reduce, .in = in, .out = out, .root = root}, options, handle);
    });
}

int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options) {
    return called_wait(options, [&] {
        return run(name, {.operation = Operation::reduce, .in = in, .out = out, .root = root}, options);
    });
}

int rueda_barrier_async(const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] { return start("", {.operation = Operation::barrier}, options, handle); });
}

int rueda_barrier(const rueda_options* options) {
    return called_wait(options, [&] { return run("", {.operation = Operation::barrier}, options); });
}

int rueda_join_async(int32_t average, rueda_handle** handle) { return start_join(average, options_of_next(), handle); }

int rueda_join(int32_t average, int32_t* last_rank) {
    const rueda_options options = options_of_next();
    rueda_handle* handle = nullptr;
    const int status =
        start_and_wait(&options, handle, [&](rueda_handle** started) { return start_join(average, options, started); });
    if (status == RUEDA_OK && last_rank != nullptr) {
        RUEDA_ASSERT(handle != nullptr);
        *last_rank = handle->joined_last;
    }
    rueda_handle_release(handle);
    return status;
}

}  // extern "C"
