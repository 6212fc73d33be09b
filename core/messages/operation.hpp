// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "core/messages/device_copy.hpp"
#include "core/messages/frame.hpp"
#include "core/pending/completion.hpp"
#include "core/pending/set_identity.hpp"
#include "rueda/rueda.h"
#include "rueda/types.hpp"

namespace rueda::core {

/// A send or a receive, as its caller requested it.
struct MessageRequest {
    bool sends = false;
    int peer = 0;  ///< The other rank, by its number in the job. In a receive, it may also be RUEDA_ANY_PEER.
    std::int32_t tag = 0;
    std::shared_ptr<const SetIdentity> set;
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
    std::byte* memory = nullptr;  ///< A send only reads this memory; a receive writes it.
    /// The copy between `memory` and a tensor in device memory; null if the tensor is not in device memory.
    std::shared_ptr<DeviceCopy> device{};
    bool is_blocking = false;  ///< whether the caller waits for the operation; only the flight recorder uses this

    [[nodiscard]] bool is_from_anybody() const { return !sends && peer == RUEDA_ANY_PEER; }
    /// Whether this and another send must keep their order, because their messages match the same receives.
    [[nodiscard]] bool keeps_order_with(const MessageRequest& other) const {
        return peer == other.peer && tag == other.tag && set->id == other.set->id;
    }
    /// Returns the frame of kind `kind` that this request sends or expects for message `id`.
    [[nodiscard]] Frame frame(FrameKind kind, std::uint64_t id) const {
        Frame frame;
        frame.kind = static_cast<std::uint8_t>(kind);
        frame.tag = tag;
        frame.set = set->id;
        frame.dtype = static_cast<std::uint8_t>(dtype);
        frame.id = id;
        frame.bytes = bytes;
        return frame;
    }
    /// Returns a text such as "send to rank 3, tag 7" or "receive from any rank, tag 7". Names the process set if it is
    /// not the world.
    [[nodiscard]] std::string describe() const;
};

/// A send or receive that is pending on this rank.
struct MessageOperation {
    MessageRequest request;
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
    std::uint64_t number = 0;    ///< pending operations are numbered in the order of their calls, beginning with 1
    std::uint64_t recorded = 0;  ///< the number of this operation's record in the flight recorder
    bool is_remote = false;      ///< whether the operation has begun and the other rank is on another host
    /// If this status is a failure, the send fails with this status as soon as the receiver no longer reads the send's
    /// memory.
    Status ends_with;
    /// The sender of the message. Used only for a receive whose message is being copied to the device.
    int sender = -1;
    /// The operation waits for work on this GPU of this rank; -1 if it waits for no GPU. Messenger::operations_mutex_
    /// guards this field, because other threads read it in Messenger::for_each_pending().
    int waits_for_gpu = -1;
    std::list<MessageOperation>::iterator place{};
};

/// Returns the error for a send and a receive that match but differ in type or size; both sides report the same text.
/// `set` may be the set of either request.
struct MessageMismatch {
    int sender = 0;
    int receiver = 0;
    std::int32_t tag = 0;
    DType sent_dtype = DType::uint8;
    std::uint64_t sent_bytes = 0;
    DType received_dtype = DType::uint8;
    std::uint64_t received_bytes = 0;

    [[nodiscard]] Status status(const SetIdentity& set) const;
};

}  // namespace rueda::core
