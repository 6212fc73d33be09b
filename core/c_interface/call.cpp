// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/c_interface/call.hpp"

#include <utility>

#include "collectives/rows.hpp"
#include "core/c_interface/process.hpp"
#include "core/operations/device_memory.hpp"

namespace rueda::core::c_interface {

Status Call::begin(const char* name, const rueda_options* given) {
    runtime = process().current.load(std::memory_order_acquire);
    if (runtime == nullptr) [[unlikely]] {
        return not_initialized();
    }
    RUEDA_RETURN_IF_FAILED(effective_options(given, completed, options));
    set = &runtime->world();
    if (options->process_set != 0) [[unlikely]] {
        Result<std::shared_ptr<ProcessSet>> found = runtime->process_sets().find(options->process_set);
        RUEDA_RETURN_IF_FAILED(found.status());
        kept = std::move(found).value();
        set = kept.get();
    }
    return options->slot != nullptr ? check_slot() : check_name(name);
}

std::unique_ptr<rueda_handle> Call::make_handle(std::uint32_t members) const {
    RUEDA_ASSERT(options != nullptr);
    auto handle = std::make_unique<rueda_handle>(runtime, members);
    handle->note_site(options->source_file, options->source_line);
    return handle;
}

Status Call::attach_device(Request& request) const {
    if (!is_on_device(request.metadata) || request.is_refused) {
        return {};
    }
    const auto operation = static_cast<collectives::Operation>(request.metadata.operation);
    const bool is_rootless_gather =
        operation == collectives::Operation::gather && request.metadata.root != set->set_rank();
    const bool is_share = operation == collectives::Operation::reducescatter;
    const std::int64_t share =
        is_share ? collectives::rows_of_member(request.first_dimension, static_cast<std::uint32_t>(set->set_rank()),
                                               static_cast<std::uint32_t>(set->set_size()))
                       .count
                 : 0;
    // The output may be null if it has no elements.
    const bool has_output =
        is_share ? request.output != nullptr || share == 0 || request.count == 0 : request.output_rows.has_value();
    if (collectives::has_variable_rows(operation) && !has_output && !is_rootless_gather) {
        return failure(ErrorCode::unsupported,
                       "the output of {} on a GPU is NULL; give its memory, because Rueda allocates only memory of the "
                       "CPU",
                       collectives::name_of(operation));
    }
    auto use = runtime->use_device(*set, *options->device);
    RUEDA_RETURN_IF_FAILED(use.status());
    request.device = with_memory_of(std::move(use).value(), request);
    return {};
}

Status Call::fill(const char* name, const Arguments& arguments, Request& request) const {
    RUEDA_ASSERT(set != nullptr && options != nullptr);
    Status made = make_request(arguments, set->membership(), *options, request);
    if (made.is_ok() && options->device != nullptr) [[unlikely]] {
        made = attach_device(request);
    }
    if (!made.is_ok()) [[unlikely]] {
        return naming_tensor(tensor_name(name), made);
    }
    note_site(request);
    return {};
}

Status Call::start(const char* name, const Arguments& arguments, Completion& completion) const {
    if (in_callback && options->wait_seconds > 0) [[unlikely]] {
        return refused_in_callback();
    }
    if (!needs_request(name)) [[likely]] {
        return runtime->start(*set, entry(), given_name(name), arguments, *options, completion);
    }
    Request request;
    RUEDA_RETURN_IF_FAILED(fill(name, arguments, request));
    return runtime->start(*set, entry(), given_name(name), request, completion, options->wait_seconds);
}

Status Call::run_request(const char* name, const Arguments& arguments, Completion& completion) const {
    Request request;
    RUEDA_RETURN_IF_FAILED(fill(name, arguments, request));
    return runtime->run(*set, entry(), given_name(name), request, completion);
}

std::string_view Call::tensor_name(const char* name) const {
    return options->slot != nullptr ? std::string_view(options->slot->name) : name != nullptr ? name : "";
}

namespace {

/// Begins a call that returns a handle.
Status begin(Call& call, const char* name, const Arguments& arguments, const rueda_options* given,
             rueda_handle** handle) {
    RUEDA_RETURN_IF_FAILED(check_given(arguments));
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    return call.begin(name, given);
}

}  // namespace

Status start(const char* name, const Arguments& arguments, const rueda_options* given, rueda_handle** handle) {
    Call call;
    RUEDA_RETURN_IF_FAILED(begin(call, name, arguments, given, handle));
    auto started = call.make_handle();
    RUEDA_RETURN_IF_FAILED(call.start(name, arguments, *started));
    *handle = started.release();
    return {};
}

Status run_for_result(const char* name, const Arguments& arguments, const rueda_options* given, rueda_handle** handle) {
    Call call;
    RUEDA_RETURN_IF_FAILED(begin(call, name, arguments, given, handle));
    auto made = call.make_handle();
    Status status = call.run(name, arguments, *made);
    if (!made->done()) {
        return status;  // The operation was refused, so the engine has no reference to the handle. `made` frees the
                        // handle.
    }
    // From here on, `made` must not free the handle, because the engine may still hold its reference.
    rueda_handle* const ended = made.release();
    if (!status.is_ok()) {
        ended->drop();
        return status;
    }
    *handle = ended;
    return {};
}

Status run_for_some_result(const char* name, const Arguments& arguments, const rueda_options* given,
                           rueda_handle** handle) {
    rueda_handle* made = nullptr;
    RUEDA_RETURN_IF_FAILED(run_for_result(name, arguments, given, &made));
    RUEDA_ASSERT(made != nullptr);
    if (handle != nullptr) {
        *handle = made;
    } else {
        made->drop();
    }
    return {};
}

}  // namespace rueda::core::c_interface
