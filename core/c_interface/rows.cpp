// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Operations that concatenate or distribute rows. Rueda allocates the output if the caller gives none.
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "core/c_interface/call.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/operations/requests.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Status;
using rueda::collectives::Operation;
using rueda::core::c_interface::called;
using rueda::core::c_interface::called_wait;
using rueda::core::c_interface::run;
using rueda::core::c_interface::run_for_result;
using rueda::core::c_interface::run_for_some_result;
using rueda::core::c_interface::start;

namespace {

Status check_output_given(const rueda_tensor* out) {
    return out != nullptr ? Status()
                          : Status(ErrorCode::invalid_argument,
                                   "the output is NULL; give its memory, or call the form without _into, whose handle "
                                   "holds the result");
}

}  // namespace

extern "C" {

int rueda_allgather_async(const char* name, const rueda_tensor* in, const rueda_options* options,
                          rueda_handle** handle) {
    return called(options, [&] { return start(name, {.operation = Operation::allgather, .in = in}, options, handle); });
}

int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options, rueda_handle** handle) {
    return called_wait(
        options, [&] { return run_for_result(name, {.operation = Operation::allgather, .in = in}, options, handle); });
}

int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                               const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return start(name, {.operation = Operation::allgather, .in = in, .out = out}, options, handle);
    });
}

int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                         const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return run(name, {.operation = Operation::allgather, .in = in, .out = out}, options);
    });
}

int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, {.operation = Operation::reducescatter, .in = in, .out = out}, options, handle);
    });
}

int rueda_reducescatter(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                        const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        if (out == nullptr) {
            return {ErrorCode::invalid_argument,
                    "the output of rueda_reducescatter is NULL, and there is no handle to hold one: give the output's "
                    "memory, or call rueda_reducescatter_async"};
        }
        return run(name, {.operation = Operation::reducescatter, .in = in, .out = out}, options);
    });
}

int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                         const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, {.operation = Operation::alltoall, .in = in, .splits = splits, .split_count = split_count},
                     options, handle);
    });
}

int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                   const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_result(
            name, {.operation = Operation::alltoall, .in = in, .splits = splits, .split_count = split_count}, options,
            handle);
    });
}

int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                              size_t split_count, const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return start(
            name,
            {.operation = Operation::alltoall, .in = in, .out = out, .splits = splits, .split_count = split_count},
            options, handle);
    });
}

int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                        size_t split_count, const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return run(
            name,
            {.operation = Operation::alltoall, .in = in, .out = out, .splits = splits, .split_count = split_count},
            options);
    });
}

int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, {.operation = Operation::gather, .in = in, .out = out, .root = root}, options, handle);
    });
}

int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_some_result(
            name,
            {.operation = Operation::gather, .in = in, .out = out, .root = root, .keeps_result = handle != nullptr},
            options, handle);
    });
}

int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                        const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name,
                     {.operation = Operation::scatter,
                      .in = in,
                      .out = out,
                      .root = root,
                      .splits = splits,
                      .split_count = split_count},
                     options, handle);
    });
}

int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                  const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&]() -> Status {
        if (out == nullptr && handle == nullptr) {
            return rueda::core::no_place_for_result("rueda_scatter");
        }
        return run_for_some_result(name,
                                   {.operation = Operation::scatter,
                                    .in = in,
                                    .out = out,
                                    .root = root,
                                    .splits = splits,
                                    .split_count = split_count},
                                   options, handle);
    });
}

}  // extern "C"
