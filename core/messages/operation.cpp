// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/operation.hpp"

namespace rueda::core {
namespace {

std::string title_of(const SetIdentity& set) {
    return set.is_world() ? "" : set.id < 0 ? "setting up a process set: " : set.describe() + ": ";
}

}  // namespace

std::string MessageRequest::describe() const {
    const std::string whom = is_from_anybody() ? "any rank" : fmt::format("rank {}", peer);
    return fmt::format("{}{} {}, tag {}", title_of(*set), sends ? "send to" : "receive from", whom, tag);
}

Status MessageMismatch::status(const SetIdentity& set) const {
    return failure(ErrorCode::mismatch,
                   "{}the message from rank {} to rank {}, tag {}, does not fit its receive: rank {} sends {} bytes of "
                   "{}; rank {} receives {} bytes of {}; both need the same dtype and number of elements",
                   title_of(set), sender, receiver, tag, sender, sent_bytes, name_of(sent_dtype), receiver,
                   received_bytes, name_of(received_dtype));
}

}  // namespace rueda::core
