// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Operations on several tensors with one handle. A sparse allreduce is a group of three operations.
#include "core/operations/groups.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/status.hpp"
#include "core/c_interface/call.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/operations/device_memory.hpp"
#include "core/operations/group_memory.hpp"
#include "core/operations/requests.hpp"
#include "core/operations/sparse.hpp"
#include "core/process_set/process_set.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

using rueda::ErrorCode;
using rueda::Result;
using rueda::Status;
using rueda::collectives::Operation;
using rueda::core::Arguments;
using rueda::core::check_given;
using rueda::core::Request;
using rueda::core::SparseAllreduce;
using rueda::core::c_interface::Call;
using rueda::core::c_interface::called;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::start_and_wait;

namespace {

/// The operation of all members of a group, and the tensors that they read and write. If `out` is null, Rueda allocates
/// the outputs.
struct GroupTensors {
    Operation operation;
    const rueda_tensor* in;
    const rueda_tensor* out;

    [[nodiscard]] Arguments member(std::size_t i) const {
        return {.operation = operation, .in = &in[i], .out = out != nullptr ? &out[i] : nullptr};
    }
};

Status check_apart(const GroupTensors& tensors, std::span<const std::string> names) {
    const auto conflict = rueda::core::find_members_in_conflict(tensors.in, tensors.out, names.size());
    return conflict ? rueda::failure(ErrorCode::invalid_argument,
                                     "'{}' and '{}' overlap in memory, and one of them is written to; the members of a "
                                     "group need memory of their own: give a tensor that is shared only once",
                                     names[conflict->first], names[conflict->second])
                    : Status();
}

/// Starts `count` operations with one handle. If `sparse` is given, the handle takes ownership of it.
Status start_group(const char* name, std::size_t count, const GroupTensors& tensors, const rueda_options* given,
                   rueda_handle** handle, std::unique_ptr<SparseAllreduce> sparse = nullptr) {
    Call call;
    if (count > 0) {
        RUEDA_RETURN_IF_FAILED(check_given({.operation = tensors.operation, .in = tensors.in, .out = tensors.out}));
    }
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_ASSERT(call.set != nullptr && call.options != nullptr);
    if (name == nullptr || *name == '\0' || call.options->slot != nullptr) {
        return {ErrorCode::invalid_argument, "a group needs a name (and no slot): its members are named after it"};
    }
    if (count == 0 || count > rueda::core::kMostGroupMembers) {
        return rueda::failure(ErrorCode::invalid_argument, "group '{}' has {} tensors; expected 1 to {}", name, count,
                              rueda::core::kMostGroupMembers);
    }
    std::vector<std::string> names;
    std::vector<Request> requests;
    std::shared_ptr<const rueda::core::DeviceUse> use;  // The device and the stream. All tensors of the group that are
                                                        // on a device share this object.
    for (std::size_t i = 0; i < count; ++i) {
        names.push_back(rueda::core::name_of_member(name, i, count));
        RUEDA_RETURN_IF_FAILED(rueda::core::check_name(names.back().c_str()));
        requests.emplace_back().member = static_cast<std::uint32_t>(i);
        const Status made = make_request(tensors.member(i), call.set->membership(), *call.options, requests.back());
        if (!made.is_ok()) {
            return rueda::core::naming_tensor(names.back(), made);
        }
        if (rueda::core::is_on_device(requests.back().metadata) && !requests.back().is_refused) {
            if (use == nullptr) {
                const Status attached = call.attach_device(requests.back());
                if (!attached.is_ok()) {
                    return rueda::core::naming_tensor(names.back(), attached);
                }
                use = requests.back().device;
            }
            // The tensors of the group share one event, which says when all of them are ready.
            requests.back().device = rueda::core::with_memory_of(use, requests.back());
        }
        call.note_site(requests.back());
    }
    RUEDA_RETURN_IF_FAILED(check_apart(tensors, names));
    auto started = call.make_handle(static_cast<std::uint32_t>(count));
    started->make_room(count);
    if (sparse != nullptr) {
        sparse->belongs_to(name, call.set->identity().ranks);
        started->sparse = std::move(sparse);
    }
    RUEDA_RETURN_IF_FAILED(call.runtime->start_group(*call.set, name, names, requests, *started));
    *handle = started.release();
    return {};
}

Result<std::unique_ptr<SparseAllreduce>> make_sparse(const rueda_tensor* indices, const rueda_tensor* values,
                                                     const std::int64_t* shape, std::int32_t ndim,
                                                     const rueda_options& options) {
    if (indices == nullptr || values == nullptr) {
        return rueda::failure(ErrorCode::invalid_argument, "the {} are NULL; expected a pointer to a rueda_tensor",
                              indices == nullptr ? "indices" : "values");
    }
    if (options.device != nullptr && options.device->type != RUEDA_CPU) {
        return Status(ErrorCode::unsupported,
                      "a sparse allreduce of tensors on a GPU is not possible; copy them to the CPU");
    }
    if (ndim < 1 || ndim > RUEDA_MAX_DIMENSIONS || shape == nullptr) {
        return rueda::failure(ErrorCode::invalid_argument,
                              "the shape of the whole has {} dimensions{}; expected 1 to {}, and their extents", ndim,
                              shape == nullptr ? " and is NULL" : "", RUEDA_MAX_DIMENSIONS);
    }
    return SparseAllreduce::make(*indices, *values, {shape, static_cast<std::size_t>(ndim)}, options);
}

}  // namespace

extern "C" {

int rueda_grouped_allreduce_async(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                  const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] { return start_group(name, count, {Operation::allreduce, in, out}, options, handle); });
}

int rueda_grouped_allreduce(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                            const rueda_options* options) {
    rueda_handle* handle = nullptr;
    const int status = start_and_wait(options, handle, [&](rueda_handle** started) {
        return rueda_grouped_allreduce_async(name, count, in, out, options, started);
    });
    rueda_handle_release(handle);
    return status;
}

int rueda_grouped_allgather_async(const char* name, size_t count, const rueda_tensor* in, const rueda_options* options,
                                  rueda_handle** handle) {
    return called(options, [&] {
        return start_group(name, count, {Operation::allgather, in, nullptr}, options, handle);
    });
}

int rueda_grouped_allgather(const char* name, size_t count, const rueda_tensor* in, const rueda_options* options,
                            rueda_handle** handle) {
    rueda_handle* result = nullptr;
    const int status = start_and_wait(options, result, [&](rueda_handle** started) {
        return handle == nullptr ? called(options, [] { return check_place(nullptr, "handle"); })
                                 : rueda_grouped_allgather_async(name, count, in, options, started);
    });
    if (status != RUEDA_OK) {
        rueda_handle_release(result);
        return status;
    }
    *handle = result;
    return RUEDA_OK;
}

int rueda_grouped_reducescatter_async(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                      const rueda_options* options, rueda_handle** handle) {
    return called(options, [&] {
        return start_group(name, count, {Operation::reducescatter, in, out}, options, handle);
    });
}

int rueda_grouped_reducescatter(const char* name, size_t count, const rueda_tensor* in, const rueda_tensor* out,
                                const rueda_options* options) {
    rueda_handle* handle = nullptr;
    const int status = start_and_wait(options, handle, [&](rueda_handle** started) {
        if (out != nullptr) {
            return rueda_grouped_reducescatter_async(name, count, in, out, options, started);
        }
        return called(options, [] {
            return Status(ErrorCode::invalid_argument,
                          "the outputs of rueda_grouped_reducescatter are NULL, and there is no handle to hold them: "
                          "give their memory, or call rueda_grouped_reducescatter_async");
        });
    });
    rueda_handle_release(handle);
    return status;
}

int rueda_sparse_allreduce_async(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                                 const int64_t* shape, int32_t ndim, const rueda_options* options,
                                 rueda_handle** handle) {
    return called(options, [&]() -> Status {
        rueda_options completed;
        const rueda_options* effective = nullptr;
        RUEDA_RETURN_IF_FAILED(rueda::core::effective_options(options, completed, effective));
        auto made = make_sparse(indices, values, shape, ndim, *effective);
        if (!made.is_ok()) {
            return {made.status().code(),
                    fmt::format("sparse allreduce '{}': {}", name != nullptr ? name : "", made.status().message())};
        }
        const auto members = made.value()->members();
        return start_group(name, members.size(), {Operation::allgather, members.data(), nullptr}, options, handle,
                           std::move(made).value());
    });
}

int rueda_sparse_allreduce(const char* name, const rueda_tensor* indices, const rueda_tensor* values,
                           const int64_t* shape, int32_t ndim, const rueda_options* options, rueda_handle** handle) {
    rueda_handle* result = nullptr;
    const int status = start_and_wait(options, result, [&](rueda_handle** started) {
        return handle == nullptr ? called(options, [] { return check_place(nullptr, "handle"); })
                                 : rueda_sparse_allreduce_async(name, indices, values, shape, ndim, options, started);
    });
    if (status != RUEDA_OK) {
        rueda_handle_release(result);
        return status;
    }
    *handle = result;
    return RUEDA_OK;
}

}  // extern "C"
