// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/assert.hpp"
#include "base/status.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/handle.hpp"
#include "core/c_interface/slot.hpp"
#include "core/operations/requests.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/process_set.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

/// Turns the arguments of a call of the C interface into an operation of the Runtime.
namespace rueda::core::c_interface {

/// Whether the caller gave the tensors that an operation requires. The input is required. The output is required unless
/// Rueda allocates it.
struct Needed {
    Needed() = default;
    explicit Needed(const rueda_tensor* in) : has_input(in != nullptr) {}
    Needed(const rueda_tensor* in, const rueda_tensor* out) : has_input(in != nullptr), has_output(out != nullptr) {}

    [[nodiscard]] Status check() const {
        return has_input && has_output
                   ? Status()
                   : failure(ErrorCode::invalid_argument, "the {} tensor is NULL; expected a pointer to a rueda_tensor",
                             has_input ? "output" : "input");
    }

    bool has_input = true;
    bool has_output = true;
};

/// The Runtime, the process set and the options, which every call prepares first.
struct Call {
    Runtime* runtime = nullptr;
    ProcessSet* set = nullptr;
    std::shared_ptr<ProcessSet> kept;  // keeps the set alive if another thread removes it during the call
    rueda_options completed;
    const rueda_options* options = nullptr;

    [[nodiscard]] Status begin(const char* name, const rueda_options* given);
    /// Calls the function `make`, which fills in `request` from the process set and the options. begin() must have
    /// succeeded.
    template <class Make>
    [[nodiscard]] Status fill(const char* name, Request& request, Make&& make) const {
        RUEDA_ASSERT(set != nullptr && options != nullptr);
        Status made = make(*set, *options, request);
        if (made.is_ok() && options->device != nullptr) [[unlikely]] {
            made = attach_device(request);
        }
        if (!made.is_ok()) [[unlikely]] {
            return naming_tensor(tensor_name(name), made);
        }
        note_site(request);
        return {};
    }
    /// Does nothing if the tensors are not on a device. Otherwise records that they are ready on the caller's stream.
    /// `request` must have been made with the options of this object.
    [[nodiscard]] Status attach_device(Request& request) const;
    void note_site(Request& request) const {
        if (runtime->wants_call_sites()) [[unlikely]] {
            request.source_file = options->source_file;
            request.source_line = options->source_line;
        }
    }
    [[nodiscard]] std::unique_ptr<rueda_handle> make_handle(std::uint32_t members = 1) const;
    /// Whether an allreduce takes the general code path. An allreduce of a named tensor in the CPU's memory takes a
    /// shorter path.
    [[nodiscard]] bool is_general(const char* name) const { return is_unnamed(name) || options->device != nullptr; }
    [[nodiscard]] bool is_unnamed(const char* name) const {
        return options->slot == nullptr && (name == nullptr || *name == '\0');
    }
    /// Returns the set's entry for the tensor name of the slot that the options contain. Null if they contain no slot.
    [[nodiscard]] TensorEntry* entry() const {
        return options->slot != nullptr
                   ? &entry_of(*options->slot, *runtime, kept != nullptr ? kept : runtime->shared_world())
                   : nullptr;
    }
    [[nodiscard]] Status run(const char* name, const Request& request, Completion& completion) const;

private:
    [[nodiscard]] std::string_view tensor_name(const char* name) const;
    [[nodiscard]] Status check_slot() const {
        return options->slot->process_set == options->process_set
                   ? Status()
                   : failure(ErrorCode::invalid_argument,
                             "the slot of '{}' belongs to process set {}, but the operation is in process set {}: make "
                             "one slot for each process set",
                             options->slot->name, options->slot->process_set, options->process_set);
    }
};

/// Starts an operation. The function `make` fills in the operation's request from the process set and the options.
template <class Make>
Status start(const char* name, const Needed& needed, const rueda_options* given, rueda_handle** handle, Make&& make) {
    Call call;
    Request request;
    RUEDA_RETURN_IF_FAILED(needed.check());
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_RETURN_IF_FAILED(call.fill(name, request, make));
    auto started = call.make_handle();
    if (TensorEntry* const known = call.entry()) {
        RUEDA_RETURN_IF_FAILED(call.runtime->start(*call.set, *known, request, *started));
    } else {
        RUEDA_RETURN_IF_FAILED(call.runtime->start(*call.set, name == nullptr ? "" : name, request, *started));
    }
    *handle = started.release();
    return {};
}

/// Like start(), but waits for the operation.
template <class Make>
Status run(const char* name, const Needed& needed, const rueda_options* given, Make&& make) {
    Call call;
    Request request;
    RUEDA_RETURN_IF_FAILED(needed.check());
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_RETURN_IF_FAILED(call.fill(name, request, make));
    Completion completion;
    return call.run(name, request, completion);
}

/// Runs an operation and waits for it. If it succeeds, returns a handle for its result.
template <class Make>
Status run_for_result(const char* name, const Needed& needed, const rueda_options* given, rueda_handle** handle,
                      Make&& make) {
    Call call;
    Request request;
    RUEDA_RETURN_IF_FAILED(needed.check());
    RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    RUEDA_RETURN_IF_FAILED(call.fill(name, request, make));
    auto made = call.make_handle();
    Status status = call.run(name, request, *made);
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

/// Like run_for_result(), but `handle` may be null if the caller does not need the result.
template <class Make>
Status run_for_some_result(const char* name, const Needed& needed, const rueda_options* given, rueda_handle** handle,
                           Make&& make) {
    rueda_handle* made = nullptr;
    RUEDA_RETURN_IF_FAILED(run_for_result(name, needed, given, &made, make));
    RUEDA_ASSERT(made != nullptr);
    if (handle != nullptr) {
        *handle = made;
    } else {
        made->drop();
    }
    return {};
}

/// Starts an operation with `start` and waits for it. `handle` must be null before the call. The caller must release
/// the handle afterwards, also on failure.
template <class Start>
int start_and_wait(const rueda_options* given, rueda_handle*& handle, Start&& start) {
    if (in_callback) {
        return called(given, refused_in_callback);
    }
    const int started = start(&handle);
    return started != RUEDA_OK ? started : rueda_wait(handle, -1);
}

}  // namespace rueda::core::c_interface
