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

/// The Runtime, the process set and the options, which every call prepares first.
struct Call {
    Runtime* runtime = nullptr;
    ProcessSet* set = nullptr;
    std::shared_ptr<ProcessSet> kept;  // keeps the set alive if another thread removes it during the call
    rueda_options completed;
    const rueda_options* options = nullptr;

    [[nodiscard]] Status begin(const char* name, const rueda_options* given);
    /// Fills in the request of an operation that is not submitted by its arguments; see needs_request(). begin() must
    /// have succeeded.
    [[nodiscard]] Status fill(const char* name, const Arguments& arguments, Request& request) const;
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
    /// Whether the operation needs a request before it is submitted. Operations without a name do, and those on a
    /// device. Others are submitted by their arguments, which is faster if they repeat the last operation of the name.
    [[nodiscard]] bool needs_request(const char* name) const {
        return (options->slot == nullptr && (name == nullptr || *name == '\0')) || options->device != nullptr;
    }
    /// Returns the set's entry for the tensor name of the slot that the options contain. Null if they contain no slot.
    [[nodiscard]] TensorEntry* entry() const {
        return options->slot != nullptr
                   ? &entry_of(*options->slot, *runtime, kept != nullptr ? kept : runtime->shared_world())
                   : nullptr;
    }
    /// Starts the operation. begin() must have succeeded.
    [[nodiscard]] Status start(const char* name, const Arguments& arguments, Completion& completion) const;
    /// Like start(), but waits for the operation.
    [[nodiscard]] Status run(const char* name, const Arguments& arguments, Completion& completion) const {
        return needs_request(name) ? run_request(name, arguments, completion)
                                   : runtime->run(*set, entry(), given_name(name), arguments, *options, completion);
    }

private:
    [[nodiscard]] Status run_request(const char* name, const Arguments& arguments, Completion& completion) const;
    /// The name that the caller gave; "" if it gave a slot or no name.
    [[nodiscard]] std::string_view given_name(const char* name) const {
        return options->slot != nullptr || name == nullptr ? std::string_view() : name;
    }
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

/// Starts an operation.
Status start(const char* name, const Arguments& arguments, const rueda_options* given, rueda_handle** handle);
/// Runs an operation and waits for it. Inline, because this is the fast path of small blocking operations.
inline Status run(const char* name, const Arguments& arguments, const rueda_options* given) {
    Call call;
    RUEDA_RETURN_IF_FAILED(check_given(arguments));
    RUEDA_RETURN_IF_FAILED(call.begin(name, given));
    Completion completion;
    return call.run(name, arguments, completion);
}
/// Like run(). If the operation succeeds, also returns a handle for its result.
Status run_for_result(const char* name, const Arguments& arguments, const rueda_options* given, rueda_handle** handle);
/// Like run_for_result(), but `handle` may be null if the caller does not need the result.
Status run_for_some_result(const char* name, const Arguments& arguments, const rueda_options* given,
                           rueda_handle** handle);

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
