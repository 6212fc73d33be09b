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

/// An operation's call, from its arguments to the Runtime.
namespace rueda::core::c_interface {

/// Which of the tensors that an operation cannot do without were given: its input, and its output where it makes none.
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

/// What an operation's call begins with: the Runtime, the process set and the options that hold.
struct Call {
    Runtime* runtime = nullptr;
    ProcessSet* set = nullptr;
    std::shared_ptr<ProcessSet> kept;  // a set that is not the world may be removed meanwhile
    rueda_options completed;
    const rueda_options* options = nullptr;

    [[nodiscard]] Status begin(const char* name, const rueda_options* given);
    /// Lets `make` fill in the request from the process set and the options; after a begin() that went well.
    template <class Make>
    [[nodiscard]] Status fill(const char* name, Request& request, Make&& make) const {
        RUEDA_ASSERT(set != nullptr && options != nullptr);
        if (Status made = make(*set, *options, request); !made.is_ok()) [[unlikely]] {
            return naming_tensor(tensor_name(name), made);
        }
        note_site(request);
        return {};
    }
    void note_site(Request& request) const {
        if (runtime->wants_call_sites()) [[unlikely]] {
            request.source_file = options->source_file;
            request.source_line = options->source_line;
        }
    }
    [[nodiscard]] std::unique_ptr<rueda_handle> make_handle(std::uint32_t members = 1) const;
    [[nodiscard]] bool is_unnamed(const char* name) const {
        return options->slot == nullptr && (name == nullptr || *name == '\0');
    }
    /// Of the slot that the options name; null without one.
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
                             "the slot of '{}' belongs to process set {}, and the operation is one of process "
                             "set {}: make a slot for each",
                             options->slot->name, options->slot->process_set, options->process_set);
    }
};

/// Starts what `make` fills in from the process set and the options.
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

/// The same, and waits for it.
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

/// Waits for it as run() does, and gives a handle for its result where all went well.
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
        return status;  // it was refused, and the engine does not know the handle
    }
    rueda_handle* const ended = made.release();  // the engine may still be about to let go of it
    if (!status.is_ok()) {
        ended->drop();
        return status;
    }
    *handle = ended;
    return {};
}

/// The same; `handle` may be null, where nobody asks for the result.
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

/// The blocking form of what `start` starts. `handle`, null before, is the caller's to release, however it ends.
template <class Start>
int start_and_wait(const rueda_options* given, rueda_handle*& handle, Start&& start) {
    if (in_callback) {
        return called(given, refused_in_callback);
    }
    const int started = start(&handle);
    return started != RUEDA_OK ? started : rueda_wait(handle, -1);
}

}  // namespace rueda::core::c_interface
