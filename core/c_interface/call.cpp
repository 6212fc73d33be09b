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

Status Call::run(const char* name, const Request& request, Completion& completion) const {
    TensorEntry* const known = entry();
    return known != nullptr ? runtime->run(*set, *known, request, completion)
                            : runtime->run(*set, name == nullptr ? "" : name, request, completion);
}

std::string_view Call::tensor_name(const char* name) const {
    return options->slot != nullptr ? std::string_view(options->slot->name) : name != nullptr ? name : "";
}

}  // namespace rueda::core::c_interface
