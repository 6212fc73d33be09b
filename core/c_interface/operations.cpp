// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Operations on a whole tensor, and operations without a tensor.
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

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
using rueda::core::Completion;
using rueda::core::ProcessSet;
using rueda::core::Request;
using rueda::core::Runtime;
using rueda::core::c_interface::Call;
using rueda::core::c_interface::called;
using rueda::core::c_interface::called_wait;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::current_runtime;
using rueda::core::c_interface::Needed;
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
    return called(options, [&]() -> Status {
        Call call;
        RUEDA_RETURN_IF_FAILED(Needed(in, out).check());
        RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
        RUEDA_RETURN_IF_FAILED(call.begin(name, options));
        if (call.is_general(name)) {
            return start(name, Needed(in, out), options, handle,
                         [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                             return rueda::core::make_allreduce(*in, *out, o, request);
                         });
        }
        auto started = call.make_handle();
        RUEDA_RETURN_IF_FAILED(call.runtime->start_allreduce(*call.set, call.entry(),
                                                             call.options->slot != nullptr ? std::string_view() : name,
                                                             *in, *out, *call.options, *started));
        *handle = started.release();
        return {};
    });
}

int rueda_allreduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        Call call;
        if (in == nullptr || out == nullptr) [[unlikely]] {
            return Needed(in, out).check();
        }
        RUEDA_RETURN_IF_FAILED(call.begin(name, options));
        if (call.is_general(name)) {
            return run(name, Needed(in, out), options,
                       [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                           return rueda::core::make_allreduce(*in, *out, o, request);
                       });
        }
        Completion completion;
        return call.runtime->run_allreduce(*call.set, call.entry(),
                                           call.options->slot != nullptr ? std::string_view() : name, *in, *out,
                                           *call.options, completion);
    });
}

int rueda_broadcast_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                          const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(
            name, Needed(in, out), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
                return rueda::core::make_broadcast(*in, *out, root, set.identity().ranks, set.set_rank(), o, request);
            });
    });
}

int rueda_broadcast(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                    const rueda_options* options) {
    return called_wait(options, [&] {
        return run(name, Needed(in, out), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_broadcast(*in, *out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_reduce_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reduce(*in, out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_reduce(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options) {
    return called_wait(options, [&] {
        return run(name, Needed(in), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reduce(*in, out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_barrier_async(const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start("", Needed(), options, handle, [](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
            return rueda::core::make_barrier(o, request);
        });
    });
}

int rueda_barrier(const rueda_options* options) {
    return called_wait(options, [&] {
        return run("", Needed(), options, [](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
            return rueda::core::make_barrier(o, request);
        });
    });
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
