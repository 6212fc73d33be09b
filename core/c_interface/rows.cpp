// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Operations that concatenate or distribute rows. Rueda allocates the output if the caller gives none.
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "core/c_interface/call.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/operations/requests.hpp"
#include "core/process_set/process_set.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Status;
using rueda::core::ProcessSet;
using rueda::core::Request;
using rueda::core::c_interface::called;
using rueda::core::c_interface::called_wait;
using rueda::core::c_interface::Needed;
using rueda::core::c_interface::run;
using rueda::core::c_interface::run_for_result;
using rueda::core::c_interface::run_for_some_result;
using rueda::core::c_interface::start;

namespace {

Status no_place_for_result(const char* function) {
    return rueda::failure(ErrorCode::invalid_argument,
                          "the output and the handle of {} are both NULL, but there is a result on this rank: give "
                          "one of them",
                          function);
}

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
    return called(options, [&] {
        return start(name, Needed(in), options, handle,
                     [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                         return rueda::core::make_allgather(*in, nullptr, o, request);
                     });
    });
}

int rueda_allgather(const char* name, const rueda_tensor* in, const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_result(name, Needed(in), options, handle,
                              [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                                  return rueda::core::make_allgather(*in, nullptr, o, request);
                              });
    });
}

int rueda_allgather_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                               const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return start(name, Needed(in), options, handle,
                     [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
                         return rueda::core::make_allgather(*in, out, o, request);
                     });
    });
}

int rueda_allgather_into(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                         const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return run(name, Needed(in), options, [&](ProcessSet& /*set*/, const rueda_options& o, Request& request) {
            return rueda::core::make_allgather(*in, out, o, request);
        });
    });
}

int rueda_reducescatter_async(const char* name, const rueda_tensor* in, const rueda_tensor* out,
                              const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reducescatter(*in, out, set.set_rank(), set.set_size(), o, request);
        });
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
        return run(name, Needed(in), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_reducescatter(*in, out, set.set_rank(), set.set_size(), o, request);
        });
    });
}

int rueda_alltoall_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                         const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_alltoall(*in, splits, split_count, nullptr, set.set_size(), o, request);
        });
    });
}

int rueda_alltoall(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                   const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_result(
            name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
                return rueda::core::make_alltoall(*in, splits, split_count, nullptr, set.set_size(), o, request);
            });
    });
}

int rueda_alltoall_into_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                              size_t split_count, const rueda_options* options, rueda_handle** handle) {
    return called(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_alltoall(*in, splits, split_count, out, set.set_size(), o, request);
        });
    });
}

int rueda_alltoall_into(const char* name, const rueda_tensor* in, const rueda_tensor* out, const int64_t* splits,
                        size_t split_count, const rueda_options* options) {
    return called_wait(options, [&]() -> Status {
        RUEDA_RETURN_IF_FAILED(check_output_given(out));
        return run(name, Needed(in), options, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_alltoall(*in, splits, split_count, out, set.set_size(), o, request);
        });
    });
}

int rueda_gather_async(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                       const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_gather(*in, out, root, set.identity().ranks, set.set_rank(), o, request);
        });
    });
}

int rueda_gather(const char* name, const rueda_tensor* in, const rueda_tensor* out, int root,
                 const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&] {
        return run_for_some_result(name, Needed(in), options, handle,
                                   [&](ProcessSet& set, const rueda_options& o, Request& request) -> Status {
                                       RUEDA_RETURN_IF_FAILED(rueda::core::make_gather(
                                           *in, out, root, set.identity().ranks, set.set_rank(), o, request));
                                       const bool has_result = set.set_rank() == request.metadata.root;
                                       return has_result && out == nullptr && handle == nullptr
                                                  ? no_place_for_result("rueda_gather")
                                                  : Status();
                                   });
    });
}

int rueda_scatter_async(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                        const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start(name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
            return rueda::core::make_scatter(*in, splits, split_count, out, root, set.identity().ranks, set.set_rank(),
                                             o, request);
        });
    });
}

int rueda_scatter(const char* name, const rueda_tensor* in, const int64_t* splits, size_t split_count,
                  const rueda_tensor* out, int root, const rueda_options* options, rueda_handle** handle) {
    return called_wait(options, [&]() -> Status {
        if (out == nullptr && handle == nullptr) {
            return no_place_for_result("rueda_scatter");
        }
        return run_for_some_result(
            name, Needed(in), options, handle, [&](ProcessSet& set, const rueda_options& o, Request& request) {
                return rueda::core::make_scatter(*in, splits, split_count, out, root, set.identity().ranks,
                                                 set.set_rank(), o, request);
            });
    });
}

}  // extern "C"
