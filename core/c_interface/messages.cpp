// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "base/status.hpp"
#include "core/c_interface/call.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/messages/operation.hpp"
#include "core/operations/requests.hpp"
#include "core/pending/completion.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

using rueda::Result;
using rueda::Status;
using rueda::core::Completion;
using rueda::core::c_interface::Call;
using rueda::core::c_interface::called;
using rueda::core::c_interface::called_wait;
using rueda::core::c_interface::check_place;

namespace {

/// Makes the request of a send or a receive from the arguments.
Status make_message(const Call& call, bool sends, const rueda_tensor* tensor, int peer, std::int32_t tag,
                    rueda::core::MessageRequest& request) {
    RUEDA_ASSERT(call.set != nullptr && call.options != nullptr);
    const rueda::core::SetIdentity& set = call.set->identity();
    const Result<rueda::core::MessageShape> shape =
        rueda::core::check_message(tensor, sends ? "input" : "output", peer, !sends, set.ranks, *call.options);
    RUEDA_RETURN_IF_FAILED(shape.status());
    request.sends = sends;
    request.peer = peer;
    request.tag = tag;
    // The world lives longer than every operation. For it, `kept` is null, so copies of the pointer count no
    // references.
    request.set = {call.kept, &set};
    request.dtype = shape.value().dtype;
    request.bytes = shape.value().bytes;
    request.memory = static_cast<std::byte*>(tensor->data);
    return shape.value().is_on_device && request.bytes > 0 ? call.runtime->use_device(*call.options->device, request)
                                                           : Status();
}

/// For a receive into device memory, makes wait_on_stream() wait until the copy of the message was put into a stream.
/// For a send, wait_on_stream() always waits for the end of the send.
void expect_copy(const rueda::core::MessageRequest& request, Completion& completion) {
    if (request.device != nullptr && !request.sends) {
        completion.expect_launches(1);
    }
}

int start_message(bool sends, const rueda_tensor* tensor, int peer, std::int32_t tag, const rueda_options* options,
                  rueda_handle** handle) {
    return called(options, [&]() -> Status {
        Call call;
        rueda::core::MessageRequest request;
        RUEDA_RETURN_IF_FAILED(check_place(handle, "handle"));
        RUEDA_RETURN_IF_FAILED(call.begin("", options));
        RUEDA_RETURN_IF_FAILED(make_message(call, sends, tensor, peer, tag, request));
        auto started = call.make_handle();
        started->is_receive = !sends;
        expect_copy(request, *started);
        RUEDA_RETURN_IF_FAILED(call.runtime->start(std::move(request), *started));
        *handle = started.release();
        return {};
    });
}

int run_message(bool sends, const rueda_tensor* tensor, int peer, std::int32_t tag, const rueda_options* options,
                std::int32_t* sender) {
    return called_wait(options, [&]() -> Status {
        Call call;
        rueda::core::MessageRequest request;
        RUEDA_RETURN_IF_FAILED(call.begin("", options));
        RUEDA_RETURN_IF_FAILED(make_message(call, sends, tensor, peer, tag, request));
        Completion completion;
        expect_copy(request, completion);
        RUEDA_RETURN_IF_FAILED(call.runtime->run(std::move(request), completion));
        if (sender != nullptr) {
            *sender = completion.sender;
        }
        return {};
    });
}

}  // namespace

extern "C" {

int rueda_send_async(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options,
                     rueda_handle** handle) {
    return start_message(/*sends=*/true, in, peer, tag, options, handle);
}

int rueda_send(const rueda_tensor* in, int peer, int32_t tag, const rueda_options* options) {
    return run_message(/*sends=*/true, in, peer, tag, options, nullptr);
}

int rueda_receive_async(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options,
                        rueda_handle** handle) {
    return start_message(/*sends=*/false, out, peer, tag, options, handle);
}

int rueda_receive(const rueda_tensor* out, int peer, int32_t tag, const rueda_options* options, int32_t* sender) {
    return run_message(/*sends=*/false, out, peer, tag, options, sender);
}

}  // extern "C"
